package config

import (
	"io/fs"
	"os"
)

// othersMay are the bits of a file's mode by which every user of the host may read or change it. Its
// group is left to whoever has chosen it: in Kubernetes that is how a container reads a secret.
const othersMay fs.FileMode = 0o006

// OpenSecret is a file with a secret that every user of the host may read or change.
type OpenSecret struct {
	Setting, File string
	Mode          fs.FileMode
}

// OpenSecrets returns those among the files that settings name.
func (c *Config) OpenSecrets() (open []OpenSecret) {
	for _, f := range [...]OpenSecret{
		{Setting: "tls.peer.key", File: c.TLS.Peer.Key},
		{Setting: "tls.client.key", File: c.TLS.Client.Key},
		{Setting: "cluster.gossip_key_file", File: c.Cluster.GossipKeyFile},
		{Setting: "auth.default_password_file", File: c.Auth.DefaultPasswordFile},
	} {
		info, err := os.Stat(f.File)
		if f.File == "" || err != nil || info.Mode()&othersMay == 0 {
			continue // what cannot be read is told where it is needed
		}
		f.Mode = info.Mode().Perm()
		open = append(open, f)
	}
	return open
}
