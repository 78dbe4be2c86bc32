package main

import "testing"

// TestTable: versions that say the same share a line, values that a build may lack are all there,
// and what users may not set is left out.
func TestTable(t *testing.T) {
	got := table(map[int]string{
		16: "fsync\treload\tbool\t\t\t\t\nwork_mem\treload\tinteger\tkB\t64\t100\t\nio_method\trestart\tenum\t\t\t\tsync\n",
		17: "work_mem\treload\tinteger\tkB\t64\t100\t\n",
		18: "work_mem\treload\tinteger\tkB\t64\t200\t\n",
	})
	want := introduction + "io_method\t16\t16\trestart\tenum\t\t\t\tsync,worker,io_uring\n" +
		"work_mem\t16\t17\treload\tinteger\tkB\t64\t100\t\nwork_mem\t18\t18\treload\tinteger\tkB\t64\t200\t\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
