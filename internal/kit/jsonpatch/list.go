package jsonpatch

import (
	"encoding/json"
	"slices"
)

// kept tells of each element of after which one of before it is, or -1. They are in the same order: as many stay in
// place as can.
func kept(before, after []any) []int {
	from := recognised(before, after)
	stays := longestRise(from)
	for i := range from {
		if !stays[i] {
			from[i] = -1
		}
	}
	return from
}

// recognised pairs elements that are equal, and of the others those with the same name: the first with the first where
// there are several, as there may be in a list of environment variables. Those without a partner have -1.
func recognised(before, after []any) []int {
	from := make([]int, len(after))
	for i := range from {
		from[i] = -1
	}
	isTaken := make([]bool, len(before))
	for _, keyOf := range []func(element any) string{wholeOf, nameOf} {
		free := map[string][]int{}
		for j, element := range before {
			if key := keyOf(element); key != "" && !isTaken[j] {
				free[key] = append(free[key], j)
			}
		}
		for i, element := range after {
			if from[i] >= 0 {
				continue
			}
			if key := keyOf(element); len(free[key]) > 0 {
				from[i] = free[key][0]
				isTaken[from[i]] = true
				free[key] = free[key][1:]
			}
		}
	}
	return from
}

// wholeOf is an element's JSON, which has its keys in order.
func wholeOf(element any) string {
	encoded, err := json.Marshal(element)
	if err != nil {
		return "" // what came out of JSON goes back into it
	}
	return string(encoded)
}

// nameOf is the name of an element that has one.
func nameOf(element any) string {
	object, _ := element.(map[string]any)
	name, _ := object["name"].(string)
	return name
}

// longestRise marks as many numbers as can be that each are greater than the one before, negative ones apart. It takes
// n log n: lists are as long as their owner likes.
func longestRise(numbers []int) []bool {
	// ends[n] is where the rise of n+1 numbers ends whose last number is the least.
	var ends []int
	previous := make([]int, len(numbers))
	for i, number := range numbers {
		if number < 0 {
			continue
		}
		length, _ := slices.BinarySearchFunc(ends, number, func(end, number int) int { return numbers[end] - number })
		previous[i] = -1
		if length > 0 {
			previous[i] = ends[length-1]
		}
		if length == len(ends) {
			ends = append(ends, i)
		} else {
			ends[length] = i
		}
	}
	marked := make([]bool, len(numbers))
	if len(ends) == 0 {
		return marked
	}
	for i := ends[len(ends)-1]; i >= 0; i = previous[i] {
		marked[i] = true
	}
	return marked
}
