package page

import (
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// functions are what templates format values with.
func functions(a assets) template.FuncMap {
	return template.FuncMap{
		"asset": a.path, "url": address, "count": count, "bytes": byteSize, "rate": rate, "millis": millis, "time": clockTime, "ago": ago,
		"join": strings.Join, "json": jsonText, "add": func(a, b int) int { return a + b }, "dict": dict, "contains": slices.Contains[[]string],
	}
}

// dict makes a table of names and values, with which a template hands several values to another one.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("page: dict has %d arguments; want names and values", len(pairs))
	}
	out := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		name, is := pairs[i].(string)
		if !is {
			return nil, fmt.Errorf("page: the name %v of dict is no string", pairs[i])
		}
		out[name] = pairs[i+1]
	}
	return out, nil
}

// address makes the address of a page with a query: names and values in turn, of which empty values are left out.
func address(path string, pairs ...any) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if v := fmt.Sprint(pairs[i+1]); v != "" {
			q.Add(fmt.Sprint(pairs[i]), v)
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// numberOf is any number as a float; ok is false for everything else, such as a figure that is not known.
func numberOf(v any) (f float64, ok bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	case float64:
		return n, true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	case *float64:
		if n != nil {
			return *n, true
		}
	case *uint64:
		if n != nil {
			return float64(*n), true
		}
	case *int:
		if n != nil {
			return float64(*n), true
		}
	}
	return 0, false
}

// unknown stands for a figure that nobody has given.
const unknown = "–"

// count writes a whole number with spaces between its thousands.
func count(v any) string {
	f, ok := numberOf(v)
	if !ok {
		return unknown
	}
	digits := strconv.FormatFloat(math.Abs(math.Round(f)), 'f', 0, 64)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteString("\u202f") // a narrow space that does not break
		}
		b.WriteRune(d)
	}
	if f < 0 {
		return "−" + b.String()
	}
	return b.String()
}

// byteSize writes a number of bytes in binary units.
func byteSize(v any) string {
	f, ok := numberOf(v)
	if !ok {
		return unknown
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	return short(f) + " " + units[i]
}

// short writes a number with at most three digits, unless it is large.
func short(f float64) string {
	switch {
	case f == math.Trunc(f) || f >= 100:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case f >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	default:
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
}

// rate writes a number per second.
func rate(v any) string {
	f, ok := numberOf(v)
	if !ok {
		return unknown
	}
	if f >= 1000 {
		return count(f) + "/s"
	}
	return short(f) + "/s"
}

// millis writes a time in milliseconds in the unit that suits it.
func millis(v any) string {
	f, ok := numberOf(v)
	switch {
	case !ok:
		return unknown
	case f < 1000:
		return short(f) + " ms"
	case f < 60_000:
		return short(f/1000) + " s"
	default:
		return (time.Duration(f) * time.Millisecond).Round(time.Second).String()
	}
}

// clockTime writes milliseconds since the Unix epoch as a time of day in UTC; 0 is unknown.
func clockTime(v any) string {
	f, ok := numberOf(v)
	if !ok || f == 0 {
		return unknown
	}
	return time.UnixMilli(int64(f)).UTC().Format("2006-01-02 15:04:05Z")
}

// ago writes how long ago milliseconds since the Unix epoch are; 0 is unknown.
func ago(v any) string {
	f, ok := numberOf(v)
	if !ok || f == 0 {
		return unknown
	}
	return time.Since(time.UnixMilli(int64(f))).Round(time.Second).String()
}
