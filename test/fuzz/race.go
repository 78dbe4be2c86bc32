//go:build race

package fuzz

// raceCost is how many times more memory an input may take: with the race detector, pools of memory
// forget what they have at random.
const raceCost = 8
