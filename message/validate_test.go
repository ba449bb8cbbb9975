package message_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/message"
)

// MSG-4.
func TestParseExpiration(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "10": 10, "+5": 5, "007": 7, "315360000000": 315360000000, "+000": 0,
	} {
		if ms, err := message.ParseExpiration(s); err != nil || ms != want {
			t.Errorf("ParseExpiration(%q) = %d, %v; want %d", s, ms, err, want)
		}
	}
	for _, s := range []string{
		"", " 5", "5 ", "-1", "1.5", "5ms", "0x10", "315360000001", "abc", "+", "++1", "٣",
		strings.Repeat("9", 300),
	} {
		_, err := message.ParseExpiration(s)
		var fe *message.FieldError
		if !errors.As(err, &fe) || fe.Field != "expiration" {
			t.Errorf("ParseExpiration(%q) gave error %v, want a *FieldError on expiration", s, err)
		}
	}
}

// MSG-8.
func TestSenderSelected(t *testing.T) {
	for name, c := range map[string]struct {
		headers message.Table
		cc, bcc []string
		fault   string
	}{
		"none": {},
		"both": {
			headers: message.Table{
				{Name: "CC", Value: message.Array(message.Int8(1), message.String("q2"))},
				{Name: "BCC", Value: message.Array(message.String("q3"), message.String("q4"))},
			},
			cc: []string{"q2"}, bcc: []string{"q3", "q4"},
		},
		"cc a string":  {headers: message.Table{{Name: "CC", Value: message.String("str")}}, fault: "header CC"},
		"bcc a number": {headers: message.Table{{Name: "BCC", Value: message.Int8(5)}}, fault: "header BCC"},
	} {
		t.Run(name, func(t *testing.T) {
			cc, bcc, err := message.SenderSelected(c.headers)
			if (err != nil) != (c.fault != "") || (err != nil && !strings.Contains(err.Error(), c.fault)) {
				t.Fatalf("error %v, want %q", err, c.fault)
			}
			if !slices.Equal(cc, c.cc) || !slices.Equal(bcc, c.bcc) {
				t.Errorf("CC %q, BCC %q; want %q, %q", cc, bcc, c.cc, c.bcc)
			}
		})
	}
}

// MSG-2, C-3: all faults are named at once.
func TestCheckLimits(t *testing.T) {
	if err := message.CheckLimits(full(), 0); err != nil {
		t.Errorf("a good message: %v", err)
	}
	long := strings.Repeat("k", message.MaxNameBytes+1)
	deep := message.Null()
	for range message.MaxTableDepth {
		deep = message.Array(deep)
	}
	err := message.CheckLimits(&message.Message{
		Properties:  message.Properties{AppID: long},
		Exchange:    long,
		RoutingKeys: []string{long},
		Headers:     message.Table{{Name: "deep", Value: deep}},
		Annotations: message.Table{{Name: "big", Value: message.String(strings.Repeat("x", message.MaxHeaderBytes))}},
		Body:        make([]byte, 11),
	}, 10)
	if err == nil {
		t.Fatal("no fault found")
	}
	for _, want := range []string{"app_id", "exchange", "routing key", "headers nested", "annotations", "body size 11: above the limit of 10 bytes"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in:\n%v", want, err)
		}
	}
	if err := message.CheckLimits(&message.Message{RoutingKeys: make([]string, message.MaxRoutingKeys+1)}, 0); err == nil {
		t.Error("too many routing keys were accepted")
	}
}

// What passes CheckLimits can be decoded again, at the very edge too.
func TestLimitsAgreeWithDecode(t *testing.T) {
	deep := message.Null()
	for range message.MaxTableDepth - 1 {
		deep = message.TableValue(message.Table{{Name: "t", Value: deep}})
	}
	wide := make(message.Table, message.MaxHeaders)
	for name, headers := range map[string]message.Table{
		"deep": {{Name: "deep", Value: deep}},
		"wide": wide,
		"big":  {{Name: "b", Value: message.String(strings.Repeat("x", message.MaxHeaderBytes-7))}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &message.Message{Headers: headers}
			if err := message.CheckLimits(m, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := message.Decode(message.Append(nil, m)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// DL-32, DL-34, DL-38.
func TestDeathHeaders(t *testing.T) {
	if h := message.DeathHeaders(&message.Message{}); h != nil {
		t.Errorf("a message without deaths has headers %v", h)
	}
	got := message.DeathHeaders(full()).String()
	want := `{x-death=[` +
		`{count=2 reason="expired" queue="b" time=1 exchange="dlx" routing-keys=["k"]} ` +
		`{original-expiration="60000" count=1 reason="rejected" queue="a" time=0 exchange="orders" routing-keys=["order.new" "cc"]}] ` +
		`x-first-death-queue="a" x-first-death-reason="rejected" x-first-death-exchange="orders" ` +
		`x-last-death-queue="b" x-last-death-reason="expired" x-last-death-exchange="dlx" ` +
		`x-last-death-delivery-count=0 x-last-death-acquired-count=4 x-death-count=3}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, f := range message.DeathHeaders(full()) {
		if !slices.Contains(message.DeathHeaderNames(), f.Name) {
			t.Errorf("DeathHeaderNames lacks %q", f.Name)
		}
	}
}
