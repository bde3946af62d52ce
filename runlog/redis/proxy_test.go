package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/redisserver"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// What a proxy does with the next write, which is a script with the letter of an append.
type trick int

const (
	pass      trick = iota
	cutBefore       // the connection ends before the server gets it
	cutAfter        // the connection ends when the server has done it
	hang            // the server never gets it, and the connection stays open
	hangAfter       // the server does it, and the connection stays open without the answer
	late            // the server gets it long after the connection was given up
	half            // the server gets a part of it
	tricks
)

func (k trick) String() string {
	return []string{"pass", "cut before", "cut after", "hang", "hang after", "late", "half"}[k]
}

// A proxy stands between a client and a server.
type proxy struct {
	target string
	l      net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex
	next  trick
	all   bool // play the trick on everything from then on
	conns map[net.Conn]bool
	held  []func() // what late requests do when they arrive
}

func startProxy(tb testing.TB, srv *redisserver.Server) *proxy {
	tb.Helper()
	var config net.ListenConfig
	l, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{target: srv.Addr(), l: l, conns: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	tb.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for c := range p.conns {
			c.Close()
		}
		p.conns = nil
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// url is the proxy's address, with a short patience for answers.
func (p *proxy) url() string {
	return "redis://" + p.l.Addr().String() + "/0?read_timeout=60ms&write_timeout=60ms"
}

func (p *proxy) play(k trick, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.all = k, all
}

// deliver lets what is late arrive.
func (p *proxy) deliver() int {
	p.mu.Lock()
	held := p.held
	p.held = nil
	p.mu.Unlock()
	for _, f := range held {
		f()
	}
	return len(held)
}

func (p *proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) remove(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *proxy) serve(client net.Conn) {
	if !p.add(client) {
		return
	}
	defer p.remove(client)
	server, err := (&net.Dialer{}).Dial("tcp", p.target)
	if err != nil {
		return
	}
	if !p.add(server) {
		return
	}
	defer p.remove(server)
	silent := make(chan struct{}) // closed when answers are swallowed
	var once sync.Once
	p.wg.Go(func() { // answers
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				client.Close()
				return
			}
			select {
			case <-silent:
				continue
			default:
			}
			if _, err := client.Write(buf[:n]); err != nil {
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
		k := p.trickFor(string(buf[:n]))
		switch k {
		case cutBefore:
			return
		case hang:
			once.Do(func() { close(silent) })
			_, _ = io.Copy(io.Discard, client)
			return
		case cutAfter, hangAfter:
			once.Do(func() { close(silent) })
			_, _ = server.Write(buf[:n])
			if k == hangAfter {
				_, _ = io.Copy(io.Discard, client)
			} else {
				time.Sleep(2 * time.Millisecond) // for the server to get it
			}
			return
		case late:
			request := append([]byte(nil), buf[:n]...)
			arrived := make(chan struct{})
			p.mu.Lock()
			p.held = append(p.held, func() {
				_, _ = server.Write(request)
				time.Sleep(2 * time.Millisecond)
				close(arrived)
			})
			p.mu.Unlock()
			once.Do(func() { close(silent) })
			_, _ = io.Copy(io.Discard, client)
			client.Close()
			<-arrived
			return
		case half:
			_, _ = server.Write(buf[:n/2])
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// trickFor says what is to be done with a request: tricks are for appends.
func (p *proxy) trickFor(request string) trick {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == pass || !p.all && !strings.Contains(request, "\r\na\r\n") {
		return pass
	}
	k := p.next
	if !p.all {
		p.next = pass
	}
	return k
}

// Whatever happens to the connection, each append is stored once and the caller hears so.
func TestLostConnection(t *testing.T) {
	srv := durable(t)
	rng, _ := faults.Rand(t)
	start := time.Now()
	p := startProxy(t, srv)
	s := openTest(t, p.url(), &Options{Patience: 20 * time.Second, Lease: time.Hour})
	l := runlogtest.Create(t, s, "r")
	n := faults.N(400)
	played := map[trick]int{}
	for i := range n {
		k := trick(rng.IntN(int(tricks)))
		if i < int(tricks) {
			k = trick(i)
		}
		played[k]++
		p.play(k, false)
		b := runlogtest.Batch(1 + rng.IntN(3))
		switch i % 5 {
		case 3:
			b.Status = runlog.Paused
		case 4:
			b.Status = runlog.Running
		}
		if err := l.Append(t.Context(), b); err != nil {
			t.Fatalf("append %d (%s): %v", i, k, err)
		}
		if rng.IntN(2) == 0 {
			p.deliver()
		}
		recs, err := s.Read(t.Context(), "r", b.Records[0].Seq, 0)
		if err != nil || len(recs) != len(b.Records) {
			t.Fatalf("append %d (%s): %d records of %d, error %v", i, k, len(recs), len(b.Records), err)
		}
		if b.Status != "" {
			if infos, err := s.Runs(t.Context(), nil); err != nil || infos[0].Status != b.Status {
				t.Fatalf("append %d (%s): listed %+v, want %s, error %v", i, k, infos, b.Status, err)
			}
		}
	}
	p.play(pass, false)
	p.deliver()
	if recs, err := s.Read(t.Context(), "r", 1, 0); err != nil || recs[len(recs)-1].Epoch != 1 {
		t.Fatal(err)
	}
	faults.Report(t, "connection cut, hung, late", "redis", n, start, "0 lost, 0 duplicates %v", played)
}

// When it cannot be told in time whether an append was stored, the answer is ErrUnknown.
func TestUnknownOutcome(t *testing.T) {
	srv := durable(t)
	for _, k := range []trick{hang, hangAfter, late} {
		t.Run(k.String(), func(t *testing.T) {
			p := startProxy(t, srv)
			s := openTest(t, p.url(), &Options{Prefix: "p" + strings.ReplaceAll(k.String(), " ", "-"), Patience: 150 * time.Millisecond})
			l := runlogtest.Create(t, s, "r")
			runlogtest.Append(t, l, 2)
			p.play(k, true)
			if err := l.Append(t.Context(), runlogtest.Batch(2)); !errors.Is(err, runlog.ErrUnknown) {
				t.Fatalf("got %v", err)
			}
			if _, err := s.Runs(t.Context(), nil); err == nil || errors.Is(err, runlog.ErrUnknown) {
				t.Fatalf("a reader was told %v", err)
			}
			p.play(pass, false)
			p.deliver()
			if err := l.Append(t.Context(), runlogtest.Batch(1)); !errors.Is(err, runlog.ErrUnknown) {
				t.Fatalf("after it: %v", err)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			l, info, err := s.Acquire(t.Context(), "r", nil)
			if err != nil || info.Head != 2 && info.Head != 4 || k != hang && info.Head != 4 {
				t.Fatalf("acquired anew: %+v, error %v", info, err)
			}
			runlogtest.Append(t, l, 1)
			if recs, err := s.Read(t.Context(), "r", 1, 0); err != nil || uint64(len(recs)) != info.Head+1 {
				t.Fatalf("%d records, error %v", len(recs), err)
			}
		})
	}
}

// A run that was taken over after an append got lost: the append counts if it was stored.
func TestTakenOverMeanwhile(t *testing.T) {
	srv := durable(t)
	for _, k := range []trick{cutBefore, cutAfter} {
		t.Run(k.String(), func(t *testing.T) {
			p := startProxy(t, srv)
			prefix := "p" + strings.ReplaceAll(k.String(), " ", "-")
			sent := 0
			var other *Store
			s := openTest(t, p.url(), &Options{Prefix: prefix, Failpoint: func(name string) {
				if name != "redis.before-send" || other == nil {
					return
				}
				if sent++; sent == 2 { // before it is sent again
					(tested{other, ""}).Expire(t, "r")
					if _, _, err := other.Acquire(t.Context(), "r", nil); err != nil {
						t.Error(err)
					}
				}
			}})
			l := runlogtest.Create(t, s, "r")
			other = openTest(t, srv.URL(), &Options{Prefix: prefix})
			p.play(k, false)
			err := l.Append(t.Context(), runlogtest.Batch(1))
			recs, readErr := other.Read(t.Context(), "r", 1, 0)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if k == cutBefore && (!errors.Is(err, runlog.ErrFenced) || len(recs) != 0) || k == cutAfter && (err != nil || len(recs) != 1) {
				t.Fatalf("error %v with %d records", err, len(recs))
			}
			if err := l.Append(t.Context(), runlogtest.Batch(1)); !errors.Is(err, runlog.ErrFenced) {
				t.Fatalf("the next append: %v", err)
			}
		})
	}
}

// A server that is away for a while costs time, and no more.
func TestServerAway(t *testing.T) {
	srv := durable(t)
	s := openTest(t, srv.URL(), nil)
	l, hasty := runlogtest.Create(t, s, "r"), runlogtest.Create(t, s, "hasty")
	srv.Kill()
	quick, stop := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer stop()
	if err := hasty.Append(quick, runlogtest.Batch(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("an append without a server: %v", err)
	}
	done := make(chan error, 2)
	go func() { done <- l.Append(t.Context(), runlogtest.Batch(1)) }()
	go func() {
		_, err := s.Runs(t.Context(), nil)
		done <- err
	}()
	time.Sleep(20 * time.Millisecond)
	srv.Restart()
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if recs, err := s.Read(t.Context(), "r", 1, 0); err != nil || len(recs) != 1 {
		t.Fatalf("%d records, error %v", len(recs), err)
	}
	srv.Kill()
	impatient, err := newStore(srv.URL(), &Options{Patience: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer impatient.client.pool.Close()
	if _, err := impatient.examine(t.Context(), &Options{}); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Fatalf("examining no server: %v", err)
	}
	go func() { done <- l.Append(t.Context(), runlogtest.Batch(1)) }()
	time.Sleep(20 * time.Millisecond)
	if err := s.Close(); err != nil { // does not wait for the server
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, storekit.ErrClosed) {
		t.Fatalf("when closed it said %v", err)
	}
}
