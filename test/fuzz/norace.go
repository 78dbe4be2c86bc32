//go:build !race

package fuzz

// RaceCost is how many times more an input may take with the race detector.
const RaceCost = 1
