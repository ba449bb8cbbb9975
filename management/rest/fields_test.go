package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// demand is what programs want of an answer. What does not have it, they do not show at all, or as nothing.
type demand struct {
	path string
	code int // 0: 200
	// fields are names and kinds with a colon between: text, flag, u16 to u64, i16, real, digits (a number, or a text of
	// one), object, texts (a list of texts), or words with bars between. A dot leads into an object, and [] into each element
	// of a list, which must have one. ? is behind a kind that may be missing or null, ~ behind one that may be missing. Each
	// row of a list has all of them.
	fields string
}

// meets returns what an answer lacks.
func (d demand) meets(a api) (lacks []string) {
	code, _, text := a.ask("", "GET "+d.path, "")
	var answer any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&answer); err != nil || code != max(d.code, http.StatusOK) {
		return []string{fmt.Sprintf("%s: %d %.300s (%v)", d.path, code, text, err)}
	}
	rows, many := answer.([]any)
	if !many {
		rows = []any{answer}
	}
	if len(rows) == 0 {
		return []string{d.path + " has no rows, which shows nothing"}
	}
	for _, row := range rows {
		for field := range strings.FieldsSeq(d.fields) {
			name, kind, _ := strings.Cut(field, ":")
			if fault := fieldFault(row, strings.Split(name, "."), kind); fault != "" {
				lacks = append(lacks, fmt.Sprintf("%s: %s %s in %.300v", d.path, field, fault, row))
			}
		}
	}
	return lacks
}

// fieldFault says what is wrong with the field of a path; "": nothing.
func fieldFault(in any, path []string, kind string) string {
	of, is := in.(map[string]any)
	if !is {
		return "is within something that is no object"
	}
	name, each := strings.CutSuffix(path[0], "[]")
	v, there := of[name]
	last := len(path) == 1
	if bare, optional := strings.CutSuffix(kind, "?"); optional && last {
		if v == nil {
			return ""
		}
		kind = bare
	}
	if bare, optional := strings.CutSuffix(kind, "~"); optional && last {
		if !there {
			return ""
		}
		kind = bare
	}
	switch {
	case !there:
		return "is missing"
	case last:
		if !isOf(kind, v) {
			return fmt.Sprintf("is %v", v)
		}
		return ""
	case !each:
		return fieldFault(v, path[1:], kind)
	}
	all, is := v.([]any)
	if !is || len(all) == 0 {
		return fmt.Sprintf("is to be in each element of %v", v)
	}
	for _, x := range all {
		if fault := fieldFault(x, path[1:], kind); fault != "" {
			return fault
		}
	}
	return ""
}

// isOf reports whether a value is of a kind.
func isOf(kind string, v any) bool {
	text, isText := v.(string)
	number, isNumber := v.(json.Number)
	switch kind {
	case "text":
		return isText
	case "flag":
		_, is := v.(bool)
		return is
	case "object":
		_, is := v.(map[string]any)
		return is
	case "texts":
		all, is := v.([]any)
		return is && !slices.ContainsFunc(all, func(x any) bool { _, is := x.(string); return !is })
	case "real":
		return isNumber
	case "digits":
		_, err := strconv.ParseUint(text+number.String(), 10, 32)
		return err == nil
	case "i16":
		_, err := strconv.ParseInt(number.String(), 10, 16)
		return isNumber && err == nil
	case "u16", "u32", "u64":
		bits, _ := strconv.Atoi(kind[1:])
		_, err := strconv.ParseUint(number.String(), 10, bits)
		return isNumber && err == nil
	}
	return isText && slices.Contains(strings.Split(kind, "|"), text)
}
