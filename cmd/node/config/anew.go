package config

import (
	"reflect"
	"time"
)

// Live are the settings that a running node takes over; all others apply from its next start.
func Live() []string {
	return []string{
		"log.level", "limits.body_cache_bytes", "limits.memory_high", "limits.incoming_bytes", "limits.incoming_connection_bytes",
		"limits.outgoing_bytes", "timeouts.incoming", "timeouts.drain", "http.metrics_token_file",
	}
}

// Apply copies the Live settings of next to c. It returns the names of those that changed, and of
// other settings that differ.
func (c *Config) Apply(next *Config) (applied, restart []string) {
	now, then := c.fields(), next.fields()
	for _, k := range Keys() {
		have, want := now[k.Name], then[k.Name]
		switch {
		case reflect.DeepEqual(have.Interface(), want.Interface()):
		case k.Live():
			have.Set(want)
			applied = append(applied, k.Name)
		default:
			restart = append(restart, k.Name)
		}
	}
	return applied, restart
}

// Value returns a setting's value, nil for a name that is no setting.
func (c *Config) Value(name string) any {
	if f, is := c.fields()[name]; is {
		return f.Interface()
	}
	return nil
}

// hidden stands for a secret.
const hidden = "(hidden)"

// Shown returns the value of a setting as others may see it: durations as text, no list as an empty
// one, and no secret other than the default.
func (c *Config) Shown(k Key) any {
	value := c.Value(k.Name)
	if k.Secret() && value != k.Default {
		return hidden
	}
	switch v := value.(type) {
	case time.Duration:
		return v.String()
	case []string:
		return append([]string{}, v...) // [] in JSON, not null
	}
	return value
}

// fields returns the fields by the names of their settings.
func (c *Config) fields() map[string]reflect.Value {
	all := map[string]reflect.Value{}
	gather(all, "", reflect.ValueOf(c).Elem())
	return all
}

// gather collects the settings by their full names, struct by struct; the fields stay settable, so
// Take can write through them.
func gather(all map[string]reflect.Value, prefix string, v reflect.Value) {
	for i := range v.NumField() {
		name := prefix + v.Type().Field(i).Tag.Get("koanf")
		if f := v.Field(i); f.Kind() == reflect.Struct {
			gather(all, name+".", f)
		} else {
			all[name] = f
		}
	}
}
