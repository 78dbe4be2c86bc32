//go:build !race

package setup

// raceCost is how many times more memory a reading may take with the race detector.
const raceCost = 1
