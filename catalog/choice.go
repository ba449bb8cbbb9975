package catalog

// takeModulus takes the binding at the routing key's hash modulo the number of bindings,
// in the order of destination and key (EX-14).
func (x *exchange) takeModulus(p *Publication, w *walk) {
	if n := x.all.len(); n > 0 {
		w.add(x.all.at(int(hashText(p.primaryKey()) % uint64(n))))
	}
}

// takeRandom takes any binding, by the publication's chance (EX-14).
func (x *exchange) takeRandom(p *Publication, w *walk) {
	if n := x.all.len(); n > 0 {
		w.add(x.all.at(int(p.Chance % uint64(n))))
	}
}

// takeLocal takes any of the bound queues that are led on the publisher's node (EX-14).
func (x *exchange) takeLocal(p *Publication, w *walk) {
	if p.Local == nil {
		x.takeRandom(p, w)
		return
	}
	local := uint64(0)
	count := func(_ string, t target) bool {
		if p.Local(t.uid) {
			local++
		}
		return true
	}
	if x.all.each(count); local == 0 {
		return
	}
	left := p.Chance % local
	x.all.each(func(binding string, t target) bool {
		if !p.Local(t.uid) {
			return true
		}
		if left > 0 {
			left--
			return true
		}
		w.add(binding, t)
		return false
	})
}
