//go:build !race

package fuzz

// raceCost is how many times more memory an input may take with the race detector.
const raceCost = 1
