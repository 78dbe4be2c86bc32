package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Format is how a value is written for another program, perhaps of another release.
type Format struct {
	// Value has every field set to something else than its zero value.
	Value any
	// Encode returns what is written, and Decode reads it into a new value of the same type.
	Encode func() (string, error)
	Decode func(text string) (any, error)
}

// CheckFormats checks that each value is written as testdata/formats/NAME has it, and that this
// file and those of earlier releases, NAME.*, are read. Programs of two releases work in one
// cluster while an upgrade lasts: a format that a release has written stays readable for ever. When
// a field is added, copy NAME to NAME.N before -update, and ask what a program does that does not
// know it.
func CheckFormats(t *testing.T, formats map[string]Format) {
	t.Helper()
	for name, format := range formats {
		if fields := unset(reflect.ValueOf(format.Value), name); len(fields) > 0 {
			t.Errorf("%s: not set, and so not in its format: %s", name, strings.Join(fields, ", "))
		}
		text, err := format.Encode()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		Check(t, filepath.Join("formats", name), []byte(text+"\n"))
		if read, err := format.Decode(text); err != nil || !cmp.Equal(format.Value, read) {
			t.Errorf("%s is not read as it was written: %v\n%s", name, err, cmp.Diff(format.Value, read))
		}
		earlier, err := filepath.Glob(filepath.Join("testdata", "formats", name+".*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range earlier {
			content, err := os.ReadFile(file) //nolint:gosec // it is ours
			if err == nil {
				_, err = format.Decode(strings.TrimSuffix(string(content), "\n"))
			}
			if err != nil {
				t.Errorf("%s, which an earlier release wrote, can't be read: %v", file, err)
			}
		}
	}
}

// unset returns the fields of a value that are zero.
func unset(value reflect.Value, path string) []string {
	var found []string
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() {
			return unset(value.Elem(), path)
		}
	case reflect.Struct:
		for i := range value.NumField() {
			found = append(found, unset(value.Field(i), path+"."+value.Type().Field(i).Name)...)
		}
		return found
	case reflect.Slice:
		for i := range value.Len() {
			found = append(found, unset(value.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
	default:
	}
	if value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0 {
		return append(found, path)
	}
	return found
}
