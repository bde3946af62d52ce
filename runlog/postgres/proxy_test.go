package postgres

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A proxy stands between a store and its server, and spoils what passes.
type proxy struct {
	t      testing.TB
	l      net.Listener
	server string
	work   sync.WaitGroup
	done   chan struct{}

	mu      sync.Mutex
	cut     cutting       // what is to be done to the next message that has the mark in it
	hit     chan struct{} // closed when it was
	latency time.Duration
	hole    chan struct{} // while it is not nil nothing passes until it is closed
	conns   map[net.Conn]bool
}

// A cutting is what a proxy does to one message of the client, and to its connection.
type cutting int

const (
	pass    cutting = iota
	drop            // the server does not get it
	deliver         // the server does it, and the client does not hear of it
	half            // the server gets a part of it
	late            // the server gets it some time after the client has been cut off
)

func startProxy(t testing.TB, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, l: l, server: server, done: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		close(p.done)
		p.heal()
		l.Close()
		p.mu.Lock()
		for c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.work.Wait()
	})
	return p
}

// dsn is the address of the database dsn through the proxy.
func (p *proxy) dsn(dsn string) string {
	return strings.Replace(dsn, p.server, p.l.Addr().String(), 1)
}

// arm says what to do to the next message that has the mark in it. What it returns is
// closed when that was done.
func (p *proxy) arm(c cutting) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.hit = c, make(chan struct{})
	return p.hit
}

// blackhole lets nothing pass, and no connection notice it.
func (p *proxy) blackhole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hole = make(chan struct{})
}

// heal ends that.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hole != nil {
		close(p.hole)
		p.hole = nil
	}
}

func (p *proxy) slow(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency = d
}

// wait holds what passes up.
func (p *proxy) wait() {
	p.mu.Lock()
	hole, latency := p.hole, p.latency
	p.mu.Unlock()
	if hole != nil {
		select {
		case <-hole:
		case <-p.done:
		}
	}
	if latency > 0 {
		time.Sleep(latency)
	}
}

const mark = "MARK"

func (p *proxy) cutting(message []byte) cutting {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.cut
	if c == pass || !bytes.Contains(message, []byte(mark)) {
		return pass
	}
	p.cut = pass
	close(p.hit)
	return c
}

func (p *proxy) track(c net.Conn, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.conns[c] = true
	} else {
		delete(p.conns, c)
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	p.track(client, true)
	defer p.track(client, false)
	p.wait()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	p.track(server, true)
	defer p.track(server, false)
	answers := make(chan struct{}, 1) // has one element while the client hears the server
	answers <- struct{}{}
	var back sync.WaitGroup
	defer func() {
		client.Close()
		server.Close()
		back.Wait()
	}()
	back.Go(func() {
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if n > 0 {
				p.wait()
				select {
				case <-answers:
					client.Write(buf[:n])
					answers <- struct{}{}
				default:
					return // it was done, and nobody hears of it
				}
			}
			if err != nil {
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		p.wait()
		switch p.cutting(buf[:n]) {
		case drop:
			return
		case half:
			server.Write(buf[:n/2])
			return
		case deliver:
			<-answers
			server.Write(buf[:n])
			back.Wait()
			return
		case late:
			client.Close()
			time.Sleep(time.Duration(time.Now().UnixNano()%20) * time.Millisecond)
			server.Write(buf[:n])
			time.Sleep(50 * time.Millisecond)
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}
