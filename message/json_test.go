package message_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/quorate/quorate/message"
)

// A table is an object; of fields of the same name the first one counts.
func TestTableJSON(t *testing.T) {
	table := message.Table{
		{Name: "text", Value: message.String("a<b\"")},
		{Name: "bytes", Value: message.Bytes([]byte("x\xff"))},
		{Name: "time", Value: message.Timestamp(5)},
		{Name: "decimal", Value: message.Decimal(2, 150)},
		{Name: "float", Value: message.Float64(2)},
		{Name: "none", Value: message.Float64(math.NaN())},
		{Name: "table", Value: message.TableValue(message.Table{{Name: "n", Value: message.Null()}, {Name: "n", Value: message.Bool(true)}})},
		{Name: "array", Value: message.Array(message.Int8(-1), message.Uint64(1<<63), message.TableValue(nil))},
	}
	const want = `{"text":"a<b\"","bytes":"x\ufffd","time":5,"decimal":1.5,"float":2.0,"none":null,"table":{"n":null},"array":[-1,9223372036854775808,{}]}`
	if got := string(table.AppendJSON(nil)); got != want || !json.Valid([]byte(got)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, err := json.Marshal(struct{ T message.Table }{}); err != nil || string(got) != `{"T":{}}` {
		t.Errorf("%s, %v", got, err)
	}
}
