package main

import (
	"encoding/base64"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
)

// plain converts a struct of the client for JSON and YAML: all its fields under their API names,
// numbers as numbers, words for enumerations, tables as objects, times and durations as numbers in
// the unit that the name ends with, and null for absent values. docs/quoratectl.md promises it.
func plain(of any) map[string]any { return plainStruct(reflect.ValueOf(of)) }

// plainAll is plain for a list; an empty list stays a list.
func plainAll[T any](all []T) []any {
	out := make([]any, len(all))
	for i, x := range all {
		out[i] = plain(x)
	}
	return out
}

// plainStruct takes the fields with a tag api, which is their name in the API; fields without one
// are not part of the output.
func plainStruct(v reflect.Value) map[string]any {
	out := map[string]any{}
	for i := range v.NumField() {
		if name, ok := v.Type().Field(i).Tag.Lookup("api"); ok {
			out[name] = plainField(name, v.Field(i))
		}
	}
	return out
}

// plainField converts by type. The name decides the unit of durations: microseconds for _us, else
// milliseconds.
func plainField(name string, v reflect.Value) any {
	switch x := v.Interface().(type) {
	case client.Table:
		return plainTable(x)
	case time.Time:
		if x.IsZero() {
			return 0
		}
		return x.UnixMilli()
	case time.Duration:
		if strings.HasSuffix(name, "_us") {
			return x.Microseconds()
		}
		return x.Milliseconds()
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plainField(name, v.Elem())
	case reflect.Struct:
		return plainStruct(v)
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = plainField(name, v.Index(i))
		}
		return out
	case reflect.Map:
		out := make(map[string]any, v.Len())
		for k, x := range v.Seq2() {
			out[fmt.Sprint(k.Interface())] = x.Interface()
		}
		return out
	case reflect.String:
		if v.Type() != reflect.TypeFor[string]() {
			return plainWord(v.String())
		}
		return v.String()
	default: // a number or a truth value
		return v.Interface()
	}
}

// plainWord returns the word for a value of an enumeration: nil for the unset value, and the number
// for a value of a newer broker.
func plainWord(word string) any {
	if word == "" {
		return nil
	}
	if n, err := strconv.Atoi(word); err == nil {
		return n
	}
	return word
}

// plainTable converts the values of a table, whose types the API keeps apart.
func plainTable(t client.Table) map[string]any {
	out := make(map[string]any, len(t))
	for name, v := range t {
		out[name] = plainValue(v)
	}
	return out
}

// plainValue converts a value of a table to a JSON value.
func plainValue(v any) any {
	switch v := v.(type) {
	case client.Table:
		return plainTable(v)
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plainValue(x)
		}
		return out
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case client.Decimal:
		return float64(v.Value) / math.Pow10(int(v.Scale))
	case float32:
		return plainFloat(float64(v))
	case float64:
		return plainFloat(v)
	default:
		return v
	}
}

// plainFloat returns a string for values that JSON numbers cannot express.
func plainFloat(v float64) any {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return v
}
