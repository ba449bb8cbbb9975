package sim

import "slices"

// members is the number of nodes; each holds a member of every group.
const members = 3

// pair is the connection of two nodes. What is on the way is lost with it; each direction
// keeps its order.
type pair struct {
	gen       int   // grows when it breaks
	downUntil int64 // ms
}

// frame is something on the way.
type frame func()

func (w *world) pair(a, b int) *pair { return &w.pairs[min(a, b)][max(a, b)] }

// connected reports whether a frame can be sent.
func (w *world) connected(a, b int) bool {
	return w.nodes[a].up && w.nodes[b].up && w.pair(a, b).downUntil <= w.now
}

// send puts a frame on its way; without a connection it is lost.
func (w *world) send(from, to int, f frame) {
	if w.connected(from, to) {
		w.frames[from][to] = append(w.frames[from][to], f)
		w.onWay++
	}
}

// request carries a question and, if the connection lasts, its answer.
func (w *world) request(from, to int, ask func(reply func(callResult)), take func(callResult)) {
	p := w.pair(from, to)
	gen := p.gen
	w.send(from, to, func() {
		ask(func(a callResult) {
			if p.gen == gen {
				w.send(to, from, func() { take(a) })
			}
		})
	})
}

// carry lets the first few frames of one direction arrive.
func (w *world) carry() {
	if w.onWay == 0 {
		return
	}
	at := w.rng.IntN(members * members)
	for i := range members * members {
		from, to := (at+i)%(members*members)/members, (at+i)%members
		if len(w.frames[from][to]) > 0 {
			w.event("arrive from to", int64(from), int64(to))
			for n := 1 + w.rng.IntN(4); n > 0 && len(w.frames[from][to]) > 0 && w.broken == nil; n-- {
				w.arrive(from, to)
			}
			return
		}
	}
}

// arrive delivers the oldest frame between two nodes: frames keep their order.
func (w *world) arrive(from, to int) {
	q := w.frames[from][to]
	f := q[0]
	w.frames[from][to] = slices.Delete(q, 0, 1)
	w.onWay--
	f()
}

// breakPair loses all that is on the way between two nodes. Gateways are notified.
func (w *world) breakPair(a, b int, down int64) {
	w.event("break a b down", int64(a), int64(b), down)
	p := w.pair(a, b)
	p.gen++
	p.downUntil = w.now + down
	w.onWay -= len(w.frames[a][b])
	w.frames[a][b] = nil
	if a != b {
		w.onWay -= len(w.frames[b][a])
		w.frames[b][a] = nil
	}
	w.nodes[a].lostLink(b)
	w.nodes[b].lostLink(a)
}
