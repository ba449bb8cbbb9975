package page

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// exchangeViews are the pages about exchanges.
func exchangeViews() []view {
	return []view{
		{path: "/ui/exchanges", file: "exchanges.html", title: "Exchanges", load: loadExchanges},
		{path: "/ui/exchange", file: "exchange.html", title: "Exchange", load: loadExchange},
		{path: "/ui/exchange/publish", file: "exchange_publish.html", title: "Publish a message", load: loadPublish},
		{path: "/ui/exchange/explain", file: "exchange_explain.html", title: "Explain routing", load: loadExplain},
	}
}

// exchangeActions change exchanges and their bindings.
func exchangeActions() []action {
	return []action{
		{path: "/ui/exchanges/declare", does: declareExchange},
		{path: "/ui/exchange/delete", asks: asksDeleteExchange, does: deleteExchange},
		{path: "/ui/exchange/publish", does: publishMessage, stays: true},
	}
}

// exchangeRow is an exchange in a list, and the head of the pages about one.
type exchangeRow struct {
	Name       string         `json:"name"`
	VHost      string         `json:"vhost"`
	Type       string         `json:"type"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Internal   bool           `json:"internal"`
	Arguments  map[string]any `json:"arguments"`
	Stats      exchangeStats  `json:"message_stats"`
}

// exchangeStats are the messages published to an exchange, and the queues that they were routed to; nil: none were.
type exchangeStats struct {
	In      *uint64   `json:"publish_in"`
	Out     *uint64   `json:"publish_out"`
	InRate  perSecond `json:"publish_in_details"`
	OutRate perSecond `json:"publish_out_details"`
}

// defaultExchange is what addresses, and the API's, have in place of the default exchange's empty name.
const defaultExchange = "amq.default"

// exchangeKey is the name of an exchange in an address.
func exchangeKey(name string) string {
	if name == "" {
		return defaultExchange
	}
	return name
}

// Key is the exchange's name in addresses.
func (x exchangeRow) Key() string { return exchangeKey(x.Name) }

// Says is the exchange's name for people.
func (x exchangeRow) Says() string {
	if x.Name == "" {
		return "(default exchange)"
	}
	return x.Name
}

// Fixed reports whether the exchange is one of those that every vhost has.
func (x exchangeRow) Fixed() bool { return x.Name == "" || strings.HasPrefix(x.Name, "amq.") }

// exchangesPage is the list of exchanges.
type exchangesPage struct {
	Page     listPage[*exchangeRow]
	VHosts   []string
	Declares []string // vhosts in which the user may declare some
	Types    []ExchangeType
}

// loadExchanges shows a page of the list; filters and order are the API's.
func loadExchanges(v *visit) (any, error) {
	p := exchangesPage{Types: v.site.ExchangeTypes}
	var err error
	if p.VHosts, err = v.vhosts(); err != nil {
		return nil, err
	}
	may, err := v.rightsIn()
	if err != nil {
		return nil, err
	}
	p.Declares = declarable(may)
	return p, v.listOf(&p.Page, v.listQuery(), "/api/exchanges")
}

// listOf asks for a list of one vhost, or of all if the address names none.
func (v *visit) listOf(out any, query url.Values, path string) error {
	if vhost := v.URL.Query().Get("vhost"); vhost != "" {
		return v.list(out, query, path+"/%s", vhost)
	}
	return v.list(out, query, path)
}

// innerQuery is listQuery for a list on the page about one thing, whose name in the address filters nothing.
func (v *visit) innerQuery() url.Values {
	q := v.listQuery()
	q.Del("name")
	q.Del("use_regex")
	return q
}

// exchangePage is what the page about one exchange shows.
type exchangePage struct {
	Exchange exchangeRow
	Routes   string // where a message goes
	From, To listPage[*bindingRow]
}

// getExchange asks for the exchange of this visit.
func (v *visit) getExchange() (x exchangeRow, err error) {
	return x, v.get(&x, "/api/exchanges/%s/%s", v.FormValue("vhost"), v.FormValue("name"))
}

// loadExchange shows a page of the bindings from the exchange, and the first of those to it, which are few.
func loadExchange(v *visit) (any, error) {
	var p exchangePage
	var err error
	if p.Exchange, err = v.getExchange(); err != nil {
		return nil, err
	}
	for _, t := range v.site.ExchangeTypes {
		if t.Name == p.Exchange.Type {
			p.Routes = t.Routes
		}
	}
	const path = "/api/exchanges/%s/%s/bindings/"
	if err = v.list(&p.From, v.innerQuery(), path+"source", p.Exchange.VHost, p.Exchange.Key()); err != nil {
		return nil, err
	}
	first := url.Values{"page": {"1"}, "page_size": {strconv.Itoa(listSize)}}
	return p, v.list(&p.To, first, path+"destination", p.Exchange.VHost, p.Exchange.Key())
}

// declareExchange declares an exchange, then shows it.
func declareExchange(v *visit) (outcome, error) {
	vhost, name := v.FormValue("vhost"), v.FormValue("name")
	arguments, err := v.jsonField("arguments")
	if err != nil {
		return outcome{}, err
	}
	if alternate := v.FormValue("alternate"); alternate != "" {
		arguments["alternate-exchange"] = alternate
	}
	body := map[string]any{
		"type": v.FormValue("type"), "durable": v.flag("durable"), "auto_delete": v.flag("auto_delete"), "internal": v.flag("internal"),
		"arguments": arguments,
	}
	err = v.change(http.MethodPut, body, nil, "/api/exchanges/%s/%s", vhost, name)
	return outcome{address("/ui/exchange", "vhost", vhost, "name", name), "The exchange is declared."}, err
}

// asksDeleteExchange counts the bindings that go with the exchange.
func asksDeleteExchange(v *visit) (question, error) {
	x, err := v.getExchange()
	if err != nil {
		return question{}, err
	}
	q := question{
		Title: "Delete exchange " + x.Name + "?", Name: x.Name, Button: "Delete",
		Back: address("/ui/exchange", "vhost", x.VHost, "name", x.Key()),
	}
	var n [2]int
	for i, way := range []string{"source", "destination"} {
		if n[i], err = v.howMany("/api/exchanges/%s/%s/bindings/"+way, x.VHost, x.Key()); err != nil {
			return question{}, err
		}
	}
	q.Lines = []string{
		plural(n[0], "binding") + " from it and " + plural(n[1], "binding") + " to it go with it.",
		"Clients that publish to it get an error; their channel is closed.",
		"Queues that dead-letter to it, and exchanges whose alternate it is, lead nowhere from then on.",
	}
	return q, nil
}

// howMany returns the length of a list of the API.
func (v *visit) howMany(path string, names ...string) (int, error) {
	var p listPage[struct{}]
	err := v.list(&p, url.Values{"page": {"1"}, "page_size": {"1"}, "columns": {"name"}, "disable_stats": {"true"}}, path, names...)
	return p.Total, err
}

// plural writes a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if many, is := strings.CutSuffix(thing, "y"); is {
		return count(n) + " " + many + "ies"
	}
	return count(n) + " " + thing + "s"
}

// deleteExchange is refused for those that every vhost has.
func deleteExchange(v *visit) (outcome, error) {
	vhost, name := v.FormValue("vhost"), v.FormValue("name")
	err := v.change(http.MethodDelete, nil, nil, "/api/exchanges/%s/%s", vhost, name)
	return outcome{address("/ui/exchanges", "vhost", vhost), "Exchange " + name + " is deleted."}, err
}
