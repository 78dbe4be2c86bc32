//go:build race

package setup

// raceCost is how many times more memory a reading may take: with the race detector, pools of
// memory forget what they have at random.
const raceCost = 8
