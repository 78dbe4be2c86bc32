//go:build race

package fuzz

// RaceCost is how many times more memory an input may take: with the race detector, pools of memory
// forget what they have at random.
const RaceCost = 8
