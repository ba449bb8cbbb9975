package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// Where contexts are kept, and which one applies.
const (
	contextsEnv = "QUORATE_CONTEXTS" // the file
	contextEnv  = "QUORATE_CONTEXT"  // the name
	// contextsMode is the mode of the file: it may have passwords.
	contextsMode    = 0o600
	contextsDirMode = 0o700
)

// clusterContext describes how to reach a cluster; empty fields have no effect.
type clusterContext struct {
	Addresses []string `yaml:"addresses" json:"addresses"`
	Vhost     string   `yaml:"vhost,omitempty" json:"vhost"`
	User      string   `yaml:"user,omitempty" json:"user"`
	// PasswordFile and TokenFile have the secrets, so that this file has none.
	PasswordFile string `yaml:"password_file,omitempty" json:"password_file"`
	TokenFile    string `yaml:"token_file,omitempty" json:"token_file"`
	TLS          bool   `yaml:"tls,omitempty" json:"tls"`
	CA           string `yaml:"tls_ca,omitempty" json:"tls_ca"`
	Cert         string `yaml:"tls_cert,omitempty" json:"tls_cert"`
	Key          string `yaml:"tls_key,omitempty" json:"tls_key"`
	ServerName   string `yaml:"tls_server_name,omitempty" json:"tls_server_name"`
}

// contexts is the content of the file.
type contexts struct {
	Current  string                    `yaml:"current,omitempty"`
	Contexts map[string]clusterContext `yaml:"contexts"`
}

// contextsFile returns the path of the file of contexts: the environment's, else one in the user's
// configuration directory.
func contextsFile() (string, error) {
	if name := os.Getenv(contextsEnv); name != "" {
		return name, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no place for contexts (%w): set a file in %s", err, contextsEnv)
	}
	return filepath.Join(dir, "quoratectl", "contexts.yaml"), nil
}

// readContexts returns no contexts if there is no file, or no place for one.
func readContexts() (*contexts, error) {
	all := &contexts{Contexts: map[string]clusterContext{}}
	name, err := contextsFile()
	if err != nil {
		return all, nil //nolint:nilerr // without a place there are no contexts
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, usageError{err}
	}
	if err := yaml.Unmarshal(text, all); err != nil {
		return nil, usageError{fmt.Errorf("contexts in %s cannot be read: %w", name, err)}
	}
	if all.Contexts == nil {
		all.Contexts = map[string]clusterContext{}
	}
	return all, nil
}

// write replaces the file by a rename, so that a crash or a second command never leaves half of it.
func (all *contexts) write() error {
	name, err := contextsFile()
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), contextsDirMode); err != nil {
		return err
	}
	fresh := name + ".new"
	if err := os.WriteFile(fresh, text, contextsMode); err != nil {
		return err
	}
	return os.Rename(fresh, name)
}

// get returns a context, or an error that names those that exist.
func (all *contexts) get(name string) (clusterContext, error) {
	x, ok := all.Contexts[name]
	if !ok {
		return x, usageError{fmt.Errorf("there is no context %q: there are %s; make one with: quoratectl context put", name,
			strings.Join(slices.Sorted(maps.Keys(all.Contexts)), ", "))}
	}
	return x, nil
}

// useContext fills in what neither the command line nor the environment gives.
func (s *session) useContext() error {
	name := s.context
	if name == "" {
		name = os.Getenv(contextEnv)
	}
	all, err := readContexts()
	if err != nil {
		return err
	}
	if name == "" {
		name = all.Current
	}
	if name == "" {
		return nil
	}
	x, err := all.get(name)
	if err != nil {
		return err
	}
	if len(s.addresses) == 0 && os.Getenv(addressesEnv) == "" {
		s.addresses = x.Addresses
	}
	if s.vhost == "" && !s.vhostGiven {
		s.vhost = x.Vhost
	}
	if !s.tls && s.tlsFiles.CA == "" && s.tlsFiles.Cert == "" && s.tlsFiles.Key == "" && s.tlsFiles.ServerName == "" {
		s.tls = x.TLS
		s.tlsFiles.CA, s.tlsFiles.Cert, s.tlsFiles.Key, s.tlsFiles.ServerName = x.CA, x.Cert, x.Key, x.ServerName
	}
	if s.password != "" && s.user == "" && s.token == "" && os.Getenv(userEnv) == "" {
		s.user = x.User // a password given here overrides the context's
	}
	if s.user != "" || s.password != "" || s.token != "" || os.Getenv(tokenEnv) != "" || os.Getenv(userEnv) != "" {
		return nil
	}
	return s.loginOf(&x)
}

// onlyVHost returns the only vhost of which definitions or queues are taken; "": all. A context's vhost must not make a part out
// of what looks like the whole cluster; users that relied on it are notified.
func (s *session) onlyVHost(cmd *cobra.Command) string {
	if s.vhostGiven || s.vhost == "" {
		return s.vhost
	}
	printf(cmd.ErrOrStderr(), "all vhosts: the context's vhost %q does not count here, only --vhost does\n", s.vhost)
	return ""
}

// loginOf reads the login of a context from the files that it names; a token counts before a
// password.
func (s *session) loginOf(x *clusterContext) error {
	secret := func(name string) (string, error) {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", usageError{err}
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
	var err error
	if x.TokenFile != "" {
		s.token, err = secret(x.TokenFile)
		return err
	}
	if s.user = x.User; x.PasswordFile != "" {
		s.password, err = secret(x.PasswordFile)
	}
	return err
}

// newContext groups `quoratectl context`. These commands talk to no node.
func newContext(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "context", Aliases: []string{"contexts"}, Short: "Manage contexts: named ways to reach clusters",
		Long: "A context holds how to reach a cluster: addresses, vhost, login, TLS. The current context applies, or the one of --context or " + contextEnv + ";\n" +
			"flags and other variables override it. Contexts are kept in the file that " + contextsEnv + " names, otherwise in the user's configuration directory.",
		// It keeps what the command line says, without what the current context adds.
		PersistentPreRunE: func(*cobra.Command, []string) error { return s.checkOutput() },
	}
	cmd.AddCommand(newContextPut(s), newContextUse(), newContextList(s), newContextDelete())
	return cmd
}

// newContextPut makes `context put`. It keeps what this command line says; secrets are kept as
// names of files only.
func newContextPut(s *session) *cobra.Command {
	var x clusterContext
	put := &cobra.Command{
		Use: "put NAME", Short: "Keep addresses, vhost, login and TLS of this command line under a name", Args: exactArgs("NAME"),
		Example: "  quoratectl context put prod -a node1:7070,node2:7070 --user ops --password-file ~/.ops --tls-ca ca.pem",
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := readContexts()
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("password") || cmd.Flags().Changed("token") {
				return usageError{errors.New("contexts keep no secrets: use --password-file or --token-file")}
			}
			if len(s.addresses) == 0 {
				return usageError{errors.New("--address is missing: a context needs the addresses of a cluster")}
			}
			x.Addresses, x.Vhost, x.User, x.TLS = s.addresses, s.vhost, s.user, s.tls
			x.CA, x.Cert, x.Key, x.ServerName = s.tlsFiles.CA, s.tlsFiles.Cert, s.tlsFiles.Key, s.tlsFiles.ServerName
			all.Contexts[args[0]] = x
			if all.Current == "" {
				all.Current = args[0]
			}
			return all.write()
		},
	}
	put.Flags().StringVar(&x.PasswordFile, "password-file", "", "file with the user's password")
	put.Flags().StringVar(&x.TokenFile, "token-file", "", "file with a token, instead of user and password")
	return put
}

func newContextUse() *cobra.Command {
	return changeContexts("use NAME", "Make a context the current one", func(all *contexts, name string) { all.Current = name })
}

// newContextDelete makes `context delete`. Deleting the current context leaves none current.
func newContextDelete() *cobra.Command {
	return changeContexts("delete NAME", "Forget a context", func(all *contexts, name string) {
		delete(all.Contexts, name)
		if all.Current == name {
			all.Current = ""
		}
	})
}

// changeContexts makes a command that changes an existing context.
func changeContexts(use, short string, change func(all *contexts, name string)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: exactArgs("NAME"), ValidArgsFunction: completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := readContexts()
			if err != nil {
				return err
			}
			if _, err := all.get(args[0]); err != nil {
				return err
			}
			change(all, args[0])
			return all.write()
		},
	}
}

// newContextList makes `context list`.
func newContextList(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List contexts; * is the current one", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := readContexts()
			if err != nil {
				return err
			}
			if s.output != outputTable {
				return s.encode(cmd.OutOrStdout(), all.list())
			}
			var rows [][]string
			for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
				x := all.Contexts[name]
				mark := ""
				if name == all.Current {
					mark = "*"
				}
				rows = append(rows, []string{mark, name, strings.Join(x.Addresses, ","), x.Vhost, x.User})
			}
			return printRows(cmd.OutOrStdout(), []string{"", "name", "addresses", "vhost", "user"}, rows...)
		},
	}
}

// listedContext is a context in JSON and YAML.
type listedContext struct {
	Name           string `yaml:"name" json:"name"`
	Current        bool   `yaml:"current" json:"current"`
	clusterContext `yaml:",inline"`
}

// list returns the contexts by name, for JSON and YAML; never nil, so that no contexts is [].
func (all *contexts) list() []listedContext {
	out := []listedContext{}
	for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
		out = append(out, listedContext{Name: name, Current: name == all.Current, clusterContext: all.Contexts[name]})
	}
	return out
}

// completeContexts completes names of contexts; a file that cannot be read completes nothing.
func completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, err := readContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(all.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
