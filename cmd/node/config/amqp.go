package config

import "net"

// listenOff switches a listener off that has a default.
const listenOff = "off"

// AMQP returns the address for AMQP 0-9-1 clients without TLS; "": none. Without logins the default
// is loopback.
func (c *Config) AMQP() string {
	switch {
	case c.Listen.AMQP == listenOff, c.Listen.AMQP == "" && c.TLS.Client.Cert != "":
		return ""
	case c.Listen.AMQP != "":
		return c.Listen.AMQP
	case !c.Authenticate():
		return "127.0.0.1:5672"
	}
	return "0.0.0.0:5672"
}

// AMQPS returns the address for AMQP 0-9-1 clients with TLS; "": none.
func (c *Config) AMQPS() string {
	switch {
	case c.Listen.AMQPS == listenOff, c.Listen.AMQPS == "" && c.TLS.Client.Cert == "":
		return ""
	case c.Listen.AMQPS != "":
		return c.Listen.AMQPS
	}
	return "0.0.0.0:5671"
}

// onLoopback reports whether only this host can reach an address.
func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err != nil || host == "localhost" || net.ParseIP(host).IsLoopback() // a malformed address is reported elsewhere
}
