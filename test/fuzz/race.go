//go:build race

package fuzz

// RaceCost is how many times more memory or processor time an input may take besides: the race
// detector makes programs slow, and pools of memory forget what they have at random.
const RaceCost = 8
