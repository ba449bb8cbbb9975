package settletoken

import (
	"bytes"
	"encoding/base64"
	"slices"
	"testing"

	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/quorumq"
)

func readToken(s string, key []byte) (Token, error) {
	sealed, err := splitToken(s)
	if err != nil {
		return Token{}, err
	}
	return sealed.open(key)
}

// AM-8: a token reads as it was made, and only the cluster's secret can make one.
func TestSettleToken(t *testing.T) {
	key := []byte("secret")
	in := Token{user: "guest", atMs: 1 << 41, ConsumerToken: gateway.ConsumerToken{Queue: 1 << 40, MsgID: 77, Consumer: quorumq.ConsumerKey{
		SessionKey: quorumq.SessionKey{Node: "node-1", Epoch: 300, Session: 1 << 63}, Tag: 5,
	}}}
	token := encodeToken(in, key)
	if out, err := readToken(token, key); err != nil || out != in {
		t.Fatal(out, err)
	}
	for i := range token {
		bad := []byte(token)
		bad[i] ^= 1
		if out, err := readToken(string(bad), key); err == nil {
			t.Errorf("a change at %d gives %+v", i, out)
		}
	}
	other := in
	other.MsgID++
	former := base64.RawURLEncoding.EncodeToString(append([]byte{1}, bytes.Repeat([]byte{1}, 20)...)) // with a checksum alone
	for _, bad := range []string{"", "x", "!!!", "AQ", "Ag", token[:len(token)-1], token + "AAAA", encodeToken(other, []byte("guess")), former} {
		if _, err := readToken(bad, key); err == nil {
			t.Errorf("%q is taken for a token", bad)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add([]byte{tokenVersion, 1, 2, 3, 4, 5, 6, 1, 'u', 1, 'n'})
	f.Add([]byte{tokenVersion})
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 {
			return
		}
		body = slices.Clone(body) // it is the fuzzer's
		body[0] = tokenVersion
		token, err := sealedToken{body: body, seal: sealOf(body, nil)}.open(nil)
		if err != nil {
			return
		}
		if again, err := readToken(encodeToken(token, nil), nil); err != nil || again != token {
			t.Fatalf("%+v became %+v, %v", token, again, err)
		}
	})
}
