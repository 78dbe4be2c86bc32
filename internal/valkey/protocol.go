package valkey

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Limits of what is read before a stream begins.
const (
	maxLineBytes = 1 << 10
	maxArguments = 32
	maxArgument  = 1 << 10
)

// Command returns a command in the form in which it is sent (RESP).
func Command(arguments ...string) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", len(arguments))
	for _, argument := range arguments {
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(argument), argument)
	}
	return []byte(text.String())
}

// ReadLine reads a line of at most maxLineBytes, and returns it without its end.
func ReadLine(from *bufio.Reader) (string, error) {
	var line []byte
	for {
		one, err := from.ReadByte()
		if err != nil {
			return "", err
		}
		if one == '\n' {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		if line = append(line, one); len(line) > maxLineBytes {
			return "", fmt.Errorf("a line of the protocol has more than %d bytes", maxLineBytes)
		}
	}
}

// ReadReply reads a line, and skips empty ones, which a server sends as a sign that it is still
// working.
func ReadReply(from *bufio.Reader) (string, error) {
	for {
		if line, err := ReadLine(from); err != nil || line != "" {
			return line, err
		}
	}
}

// ReadCommand reads a command in the form that Command returns, within the limits above.
func ReadCommand(from *bufio.Reader) ([]string, error) {
	count, err := readCount(from, '*', maxArguments)
	if err != nil {
		return nil, err
	}
	var arguments []string
	for range count {
		length, err := readCount(from, '$', maxArgument)
		if err != nil {
			return nil, err
		}
		argument := make([]byte, length+2)
		if _, err := io.ReadFull(from, argument); err != nil {
			return nil, err
		}
		if string(argument[length:]) != "\r\n" {
			return nil, errors.New("an argument of a command does not end where it says")
		}
		arguments = append(arguments, string(argument[:length]))
	}
	return arguments, nil
}

func readCount(from *bufio.Reader, sign byte, most int) (int, error) {
	line, err := ReadLine(from)
	if err != nil {
		return 0, err
	}
	count := -1
	if line != "" && line[0] == sign {
		if count, err = strconv.Atoi(line[1:]); err != nil {
			count = -1
		}
	}
	if count < 0 || count > most {
		return 0, fmt.Errorf("%.40q is not %c and a number of at most %d", line, sign, most)
	}
	return count, nil
}

// Sync is the answer of a server to PSYNC.
type Sync struct {
	// Full is true if the server sends all data, as they are at Offset; otherwise it continues from
	// where it was asked, and Offset is 0. ID is the replication ID of what follows.
	Full   bool
	ID     string
	Offset int64
}

// ParseSync parses the answer to PSYNC. For any other answer, the error contains it.
func ParseSync(line string) (Sync, error) {
	fields := strings.Fields(line)
	switch {
	case len(fields) == 2 && fields[0] == "+CONTINUE" && replicationID.MatchString(fields[1]):
		return Sync{ID: fields[1]}, nil
	case len(fields) == 3 && fields[0] == "+FULLRESYNC" && replicationID.MatchString(fields[1]):
		offset, err := strconv.ParseInt(fields[2], 10, 64)
		if err == nil && offset >= 0 && offset <= maxPlace {
			return Sync{Full: true, ID: fields[1], Offset: offset}, nil
		}
	}
	return Sync{}, fmt.Errorf("the server answers %.100q when it is asked for its stream", line)
}

// markBytes is the length of the mark that ends a snapshot of unknown length.
const markBytes = 40

// ParseSnapshot parses the line before a snapshot. It returns the snapshot's length in bytes, or
// else the mark that ends it.
func ParseSnapshot(line string) (length int64, mark string, err error) {
	text, is := strings.CutPrefix(line, "$")
	if mark, isMarked := strings.CutPrefix(text, "EOF:"); is && isMarked && len(mark) == markBytes {
		return 0, mark, nil
	}
	length, err = strconv.ParseInt(text, 10, 64)
	if !is || err != nil || length < 0 {
		return 0, "", fmt.Errorf("%.100q does not say how long the snapshot is", line)
	}
	return length, "", nil
}
