package database

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/internal/kit/image"
)

// LongestAfter is the highest value of spec.failover.after, and shortestAfter the lowest.
const (
	LongestAfter  = 5 * time.Minute
	shortestAfter = 5 * time.Second
)

// maxAfter and maxImage are the lengths of these fields in the schema, in bytes.
const maxAfter, maxImage = 16, 512

// CheckServer returns what is wrong with a server's version, of those that there are, with its
// image, and with how many there are.
func CheckServer(version string, versions []string, reference string, replicas int32, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	if !slices.Contains(versions, version) {
		problems = append(problems, field.NotSupported(at.Child("version"), Shown(version), versions))
	}
	if reference != "" {
		if err := CheckImage(reference); err != nil {
			problems = append(problems, field.Invalid(at.Child("image"), Shown(reference), err.Error()))
		}
	}
	if replicas < 1 || replicas > MaxReplicas {
		problems = append(problems, field.Invalid(at.Child("replicas"), replicas, "must be from 1 to 5"))
	}
	return problems
}

// CheckImage returns an error for what is no reference of an image, or is too long for one.
func CheckImage(text string) error {
	if len(text) > maxImage {
		return fmt.Errorf("must have at most %d bytes", maxImage)
	}
	_, err := image.Parse(text)
	return err //nolint:wrapcheck // it says what is accepted
}

// ParseAfter returns spec.failover.after, or an error that says what is accepted.
func ParseAfter(text string) (time.Duration, error) {
	after, err := time.Duration(0), errors.New("too long")
	if len(text) <= maxAfter {
		after, err = time.ParseDuration(text)
	}
	if err != nil || after < shortestAfter || after > LongestAfter {
		return 0, errors.New("must be from 5s to 5m, for example 11s")
	}
	return after, nil
}

// CheckFailover returns what is wrong with when another instance takes over.
func CheckFailover(after string, acceptLoss int64, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	if _, err := ParseAfter(after); err != nil {
		problems = append(problems, field.Invalid(at.Child("after"), Shown(after), err.Error()))
	}
	if acceptLoss < 0 {
		problems = append(problems, field.Invalid(at.Child("acceptLoss"), acceptLoss, "must be a term, as in status.term"))
	}
	return problems
}

// Shown returns a text as it stands in a message, where one of any length may be wrong.
func Shown(text string) string {
	const most = 100 // bytes
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
