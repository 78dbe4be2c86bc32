package jsonpatch

import (
	"encoding/json"
	"slices"
)

// kept returns, for each element of after, the index of the matching element of before, or -1. The
// indexes are ascending, and as many elements as possible are matched.
func kept(before, after []any) []int {
	from := matched(before, after)
	stays := longestRise(from)
	for i := range from {
		if !stays[i] {
			from[i] = -1
		}
	}
	return from
}

// matched pairs equal elements first, then elements of the same name. Several with one name, which
// a list of environment variables may have, are paired in order. Elements without a partner have
// -1.
func matched(before, after []any) []int {
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

// wholeOf returns an element's JSON, whose keys are sorted.
func wholeOf(element any) string {
	encoded, err := json.Marshal(element)
	if err != nil {
		return "" // decoded JSON can be encoded again
	}
	return string(encoded)
}

// nameOf returns the name of an element, or "".
func nameOf(element any) string {
	object, _ := element.(map[string]any)
	name, _ := object["name"].(string)
	return name
}

// longestRise marks a longest increasing subsequence of numbers, ignoring negative ones. It takes
// O(n log n), because users choose the length of their lists.
func longestRise(numbers []int) []bool {
	// ends[n] is the index of the smallest last number of an increasing subsequence of length n+1.
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
