package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// AddFlags declares a flag for every key.
func AddFlags(flags *pflag.FlagSet) {
	for _, k := range Keys() {
		help := strings.ReplaceAll(k.Help, "`", "") // the value's name, as pflag reads it from the usage
		switch d := k.Default.(type) {
		case string:
			flags.String(k.Name, d, help)
		case bool:
			flags.Bool(k.Name, d, help)
		case int:
			flags.Int(k.Name, d, help)
		case time.Duration:
			flags.Duration(k.Name, d, help)
		case []string:
			flags.StringSlice(k.Name, d, help)
		}
	}
}

// layer is one place that settings come from.
type layer struct {
	from   func(Key) string // names the place for one of its settings
	values map[string]any
}

// readLayers returns the places that settings come from, each before those that override it. Its error
// has all unknown names.
func readLayers(file string, environ []string, flags *pflag.FlagSet) ([]layer, error) {
	defaults := map[string]any{}
	for _, key := range Keys() {
		defaults[key.Name] = key.Default
	}
	fromFile, errFile := readFile(file)
	fromEnv, errEnv := readEnv(environ)
	return []layer{
		{func(Key) string { return "default" }, defaults},
		{func(Key) string { return file }, fromFile},
		{func(k Key) string { return "variable " + k.Env() }, fromEnv},
		{func(k Key) string { return "flag --" + k.Name }, readFlags(flags)},
	}, errors.Join(errFile, errEnv)
}

// readFlags returns the settings among the flags that were given. flags may be nil.
func readFlags(flags *pflag.FlagSet) map[string]any {
	out := map[string]any{}
	if flags == nil {
		return out
	}
	flags.Visit(func(f *pflag.Flag) {
		if !slices.ContainsFunc(Keys(), func(k Key) bool { return k.Name == f.Name }) {
			return // --config and other flags that are not settings
		}
		out[f.Name] = f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			out[f.Name] = list.GetSlice()
		}
	})
	return out
}

// Origins returns for each setting where Load takes it from: "default", the name of the file,
// "variable NAME" or "flag --NAME".
func Origins(file string, environ []string, flags *pflag.FlagSet) (map[string]string, error) {
	layers, err := readLayers(file, environ, flags)
	from := map[string]string{}
	for _, l := range layers {
		for _, k := range Keys() {
			if _, has := l.values[k.Name]; has {
				from[k.Name] = l.from(k)
			}
		}
	}
	return from, err
}

// Load reads the settings. file may be ""; environ is like os.Environ. It returns all unknown names
// and all faults at once.
func Load(file string, environ []string, flags *pflag.FlagSet) (*Config, error) {
	layers, err := readLayers(file, environ, flags)
	if err != nil {
		return nil, err
	}
	k := koanf.New(".")
	for _, l := range layers {
		if err := k.Load(confmap.Provider(l.values, "."), nil); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	}
	if err := checkTypes(k); err != nil {
		return nil, err
	}
	var c Config
	if err := k.Unmarshal("", &c); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if c.NodeID == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("config: cannot read the name of this host (%w): set node_id", err)
		}
		c.NodeID = name
	}
	return &c, c.Validate()
}

// checkTypes returns all values of a wrong type.
func checkTypes(k *koanf.Koanf) error {
	var errs []error
	for _, key := range Keys() {
		value := k.Get(key.Name)
		text, isText := value.(string)
		var err error
		want := ""
		switch d := key.Default.(type) {
		case bool:
			if want = "true or false"; isText {
				_, err = strconv.ParseBool(text)
			} else if _, is := value.(bool); !is {
				err = errors.ErrUnsupported
			}
		case int:
			if want = "a whole number"; isText {
				_, err = strconv.ParseInt(text, 10, 64)
			} else if _, is := value.(int); !is {
				err = errors.ErrUnsupported
			}
		case time.Duration:
			want = fmt.Sprintf("a duration, for example %v", d)
			if isText {
				_, err = time.ParseDuration(text)
			} else if _, is := value.(time.Duration); !is {
				err = errors.ErrUnsupported
			}
		case string:
			want = "a text"
			switch value.(type) {
			case []any, map[string]any:
				err = errors.ErrUnsupported
			}
		}
		if err != nil && isText {
			value = strconv.Quote(text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("config: %s is %v: want %s", key.Name, value, want))
		}
	}
	return errors.Join(errs...)
}

// readFile returns the settings of the file, with names joined by dots.
func readFile(name string) (map[string]any, error) {
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("config: %s: %w", name, err)
	}
	k := koanf.New(".")
	if err := k.Load(confmap.Provider(tree, "."), nil); err != nil {
		return nil, fmt.Errorf("config: %s: %w", name, err)
	}
	var errs []error
	for _, key := range k.Keys() {
		if _, err := find(key, name); err != nil {
			errs = append(errs, err)
		}
	}
	return k.All(), errors.Join(errs...)
}

// readEnv returns the settings in the environment.
func readEnv(environ []string) (map[string]any, error) {
	out := map[string]any{}
	var errs []error
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || foreign(name) {
			continue
		}
		key, err := find(strings.ToLower(strings.ReplaceAll(rest, "__", ".")), "environment variable "+name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out[key.Name] = value
		if _, list := key.Default.([]string); list {
			out[key.Name] = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return out, errors.Join(errs...)
}
