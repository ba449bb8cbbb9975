package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// resizeEvery is how often the size of the terminal is checked. This needs no signal, which not every system has.
const resizeEvery = 200 * time.Millisecond

// What a terminal is sent. The screen is another one than that of the shell, without a cursor, and long lines are cut.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	endOfLine   = "\x1b[K\r\n"
	clearBelow  = "\x1b[K\x1b[J"
)

// key is a key that a user presses: a character, or the name of one of the others.
type key string

// The keys without a character of their own.
const (
	keyUp        key = "up"
	keyDown      key = "down"
	keyPageUp    key = "page up"
	keyPageDown  key = "page down"
	keyHome      key = "home"
	keyEnd       key = "end"
	keyEnter     key = "enter"
	keyEscape    key = "escape"
	keyBackspace key = "backspace"
	keyInterrupt key = "interrupt"
)

// keyOf names what terminals send for keys; "" for what means nothing here. Arrows differ by the mode of the terminal.
func keyOf(sequence string) key {
	switch sequence {
	case "\x1b[A", "\x1bOA":
		return keyUp
	case "\x1b[B", "\x1bOB":
		return keyDown
	case "\x1b[5~":
		return keyPageUp
	case "\x1b[6~":
		return keyPageDown
	case "\x1b[H", "\x1bOH", "\x1b[1~":
		return keyHome
	case "\x1b[F", "\x1bOF", "\x1b[4~":
		return keyEnd
	case "\r", "\n":
		return keyEnter
	case "\x7f", "\b":
		return keyBackspace
	case "\x03":
		return keyInterrupt
	case "\x1b":
		return keyEscape
	}
	if sequence[0] < ' ' { // another sequence, or a control character
		return ""
	}
	return key(sequence)
}

// terminal is the user's terminal while it shows a screen instead of lines. One goroutine reads keys; all else belongs to
// the caller.
type terminal struct {
	in    *os.File
	out   io.Writer
	size  *os.File // whose size counts
	was   *term.State
	keys  chan key
	drawn string // what is on the screen
}

// openTerminal takes the terminal. The caller gives it back with restore.
func openTerminal(in *os.File, out io.Writer) (*terminal, error) {
	size, is := out.(*os.File)
	if !is {
		return nil, fmt.Errorf("the output is no terminal but a %T", out)
	}
	was, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("keys cannot be read, because the input is no terminal (%w): use --once", err)
	}
	t := &terminal{in: in, out: out, size: size, was: was, keys: make(chan key)}
	_, _ = io.WriteString(out, enterScreen)
	go t.read()
	return t, nil
}

// restore gives the terminal back as it was.
func (t *terminal) restore() {
	_, _ = io.WriteString(t.out, leaveScreen)
	_ = term.Restore(int(t.in.Fd()), t.was) // it has worked before, and nobody could do more
}

// read passes keys on until the process ends: nothing else ends a read from a terminal. A terminal that is gone counts as
// an interrupt.
func (t *terminal) read() {
	b := make([]byte, 256)
	for {
		n, err := t.in.Read(b)
		for _, k := range parseKeys(b[:n]) {
			t.keys <- k
		}
		if err != nil {
			t.keys <- keyInterrupt
			return
		}
	}
}

// parseKeys splits what a terminal sends at once. Sequences that mean nothing here are left out.
func parseKeys(b []byte) (keys []key) {
	for len(b) > 0 {
		n := sequenceLength(b)
		if k := keyOf(string(b[:n])); k != "" {
			keys = append(keys, k)
		}
		b = b[n:]
	}
	return keys
}

// sequenceLength is how many bytes the first key has.
func sequenceLength(b []byte) int {
	if b[0] != '\x1b' || len(b) == 1 {
		_, n := utf8.DecodeRune(b)
		return n
	}
	if b[1] == 'O' {
		return min(3, len(b))
	}
	if b[1] != '[' {
		return 1 // escape, and then another key
	}
	for i := 2; i < len(b); i++ {
		if b[i] >= '@' && b[i] <= '~' { // what ends a sequence
			return i + 1
		}
	}
	return len(b)
}

// draw shows lines of the width and height of the terminal, which it looks up, unless they are on the screen already.
func (t *terminal) draw(lines func(width, height int) []string) {
	width, height, err := term.GetSize(int(t.size.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	all := lines(width, height)
	text := toTop + strings.Join(all[:min(height, len(all))], endOfLine) + clearBelow
	if text == t.drawn {
		return
	}
	t.drawn = text
	_, _ = io.WriteString(t.out, text) // without a reader the next read fails, too
}
