package page

import (
	"net/http"
	"strconv"
	"strings"
)

// limitActions change the limits of vhosts and users.
func limitActions() []action {
	return []action{
		{path: "/ui/vhost/limits", does: setLimits("/v1/vhosts/%s/usage", "/api/vhost-limits/%s/%s", aboutVHost)},
		{path: "/ui/user/limits", does: setLimits("/v1/users/%s/usage", "/api/user-limits/%s/%s", aboutUser)},
	}
}

// limitRow is a limit and how much of it is used; nil: no limit, or the use is not measured.
type limitRow struct {
	Name  string   `json:"name"`
	Limit *int64   `json:"limit"`
	Used  *float64 `json:"used"`
}

// Says is what the limit bounds.
func (l *limitRow) Says() string {
	words := map[string]string{
		"max-connections": "Connections", "max-queues": "Queues", "max-channels": "Channels", "max-consumers": "Consumers",
		"max-message-rate": "Messages published per second", "max-byte-rate": "Bytes published per second", "max-stored-bytes": "Bytes stored in queues",
	}
	if says, is := words[l.Name]; is {
		return says
	}
	return l.Name
}

// Uses is how much is used, in the unit that suits it.
func (l *limitRow) Uses() string {
	switch l.Name {
	case "max-stored-bytes":
		return byteSize(l.Used)
	case "max-byte-rate":
		if l.Used == nil {
			return unknown
		}
		return byteSize(l.Used) + "/s"
	case "max-message-rate":
		return rate(l.Used)
	}
	return count(l.Used)
}

// Value is the limit in its form; empty is none.
func (l *limitRow) Value() string {
	if l.Limit == nil {
		return ""
	}
	return strconv.FormatInt(*l.Limit, 10)
}

// setLimits sets the limits of a form that differ from what is set, and clears those whose field is empty.
func setLimits(usage, path string, about func(string) string) func(v *visit) (outcome, error) {
	return func(v *visit) (outcome, error) {
		name := v.FormValue("name")
		var all []limitRow
		if err := v.get(&all, usage, name); err != nil {
			return outcome{}, err
		}
		changed := 0
		for i := range all {
			l := &all[i]
			want := strings.TrimSpace(v.FormValue(l.Name))
			if _, sent := v.Form[l.Name]; !sent || want == l.Value() {
				continue
			}
			method, body := http.MethodPut, any(map[string]any{"value": want})
			if want == "" {
				method, body = http.MethodDelete, nil
			}
			if err := v.change(method, body, nil, path, name, l.Name); err != nil {
				return outcome{}, err
			}
			changed++
		}
		if changed == 0 {
			return outcome{about(name), "The limits are as before."}, nil
		}
		return outcome{about(name), "Limits changed: " + strconv.Itoa(changed) + "."}, nil
	}
}
