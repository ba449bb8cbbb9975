package config

import (
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// leastToken is the minimum length of a token in bytes: guesses are not limited.
const leastToken = 16

// MetricsToken reads the token of http.metrics_token_file; "": none.
func (c *Config) MetricsToken() (string, error) {
	name := c.HTTP.MetricsTokenFile
	if name == "" {
		return "", nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("config: http.metrics_token_file: %w: name a file that user %d may read", err, os.Getuid())
	}
	token := strings.TrimSpace(string(text))
	if len(token) < leastToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("config: http.metrics_token_file %s holds no token: write one line of at least %d characters without spaces, "+
			"as by `head -c 24 /dev/urandom | base64`", name, leastToken)
	}
	return token, nil
}

// othersMay are the mode bits that let every user of the host read or change a file. The group is
// up to the file's owner: in Kubernetes a container reads a secret through it.
const othersMay fs.FileMode = 0o006

// SecretFlag is a secret setting on the command line, which every user of the host can see there.
type SecretFlag struct{ Setting, Instead string }

// SecretFlags returns the secrets among the flags.
func SecretFlags(flags *pflag.FlagSet) (given []SecretFlag) {
	for _, k := range Keys() {
		if k.Secret() && flags.Changed(k.Name) {
			given = append(given, SecretFlag{Setting: k.Name, Instead: k.Name + "_file, or the variable " + k.Env()})
		}
	}
	return given
}

// OpenSecret is a file with a secret that every user of the host can read or change.
type OpenSecret struct {
	Setting, File string
	Mode          fs.FileMode
}

// OpenSecrets returns such files among those in settings.
func (c *Config) OpenSecrets() (open []OpenSecret) {
	for _, f := range [...]OpenSecret{
		{Setting: "tls.peer.key", File: c.TLS.Peer.Key},
		{Setting: "tls.client.key", File: c.TLS.Client.Key},
		{Setting: "cluster.gossip_key_file", File: c.Cluster.GossipKeyFile},
		{Setting: "auth.default_password_file", File: c.Auth.DefaultPasswordFile},
		{Setting: "auth.ldap.dn_lookup_bind_password_file", File: c.Auth.LDAP.LookupPasswordFile},
		{Setting: "http.metrics_token_file", File: c.HTTP.MetricsTokenFile},
	} {
		info, err := os.Stat(f.File)
		if f.File == "" || err != nil || info.Mode()&othersMay == 0 {
			continue // unreadable files are reported where they are needed
		}
		f.Mode = info.Mode().Perm()
		open = append(open, f)
	}
	return open
}
