package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reader reads JSON over its own connection. It does not decode: that would be most of the time
// measured.
type reader struct {
	client *http.Client
	host   string
}

func newReader(config *rest.Config) (*reader, error) {
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: security, ForceAttemptHTTP2: true}
	return &reader{client: &http.Client{Transport: transport}, host: strings.TrimSuffix(config.Host, "/")}, nil
}

// get sends a request. The caller must close the body.
func (r *reader) get(ctx context.Context, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.host+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return nil, errors.Join(fmt.Errorf("GET %s: %s: %.300s", path, response.Status, answer), err)
}

// list reads a list to its end, and returns its bytes.
func (r *reader) list(ctx context.Context, path string) (int64, error) {
	body, err := r.get(ctx, path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = body.Close() }()
	return io.Copy(io.Discard, body)
}

// version returns the resourceVersion of a list, and the number of its objects.
func (r *reader) version(ctx context.Context, path string) (string, int, error) {
	body, err := r.get(ctx, path)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = body.Close() }()
	var found metav1.PartialObjectMetadataList
	err = json.NewDecoder(body).Decode(&found)
	return found.ResourceVersion, len(found.Items), err
}

// listsWarmUp is the number of lists before those that are timed.
const listsWarmUp = 5

// selection is what lists of both sides select, and how often each is timed: often enough that the
// 99th percentile is more than a single list, where that does not take minutes.
type selection struct {
	what, parameter, value string
	times                  int
}

// servedLists compares lists of FarmPods with lists of Pods by the same selectors, in turn.
func (b *bench) servedLists(ctx context.Context, f *farm) error {
	from, err := newReader(f.reader)
	if err != nil {
		return err
	}
	for _, selected := range []selection{
		{"all", "labelSelector", "", 100},
		{"those of a label", "labelSelector", "team=team-3", 300},
		{"those of a node", "fieldSelector", "spec.nodeName=" + servedNode(7), 1000},
	} {
		if err := b.servedList(ctx, from, selected); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) servedList(ctx context.Context, from *reader, selected selection) error {
	what, lists := selected.what, selected.times
	query := "?" + url.Values{selected.parameter: {selected.value}}.Encode()
	paths := [2]string{farmPodsPath + query, podsPath + query}
	var items [2]int
	for side, path := range paths {
		var err error
		if _, items[side], err = from.version(ctx, path); err != nil {
			return err
		}
	}
	if items[0] != items[1] || items[0] == 0 {
		return fmt.Errorf("listing %s: %d FarmPods, and %d Pods", what, items[0], items[1])
	}
	var took [2][]time.Duration
	var size [2]int64
	for i := range listsWarmUp + lists {
		for turn := range paths {
			side := (i + turn) % 2
			start := time.Now()
			read, err := from.list(ctx, paths[side])
			if err != nil {
				return err
			}
			if i >= listsWarmUp {
				took[side] = append(took[side], time.Since(start))
			}
			size[side] = read
		}
	}
	for _, each := range []struct {
		share float64
		kind  Kind
		limit *float64
	}{{0.5, Ratio, nil}, {0.99, Info, new(1.2)}} {
		ours, floor := percentile(took[0], each.share), percentile(took[1], each.share)
		b.add(Figure{Name: fmt.Sprintf("served: p%.0f of a LIST of %s over one of Pods", each.share*100, what), Kind: each.kind,
			Limit: each.limit,
			Value: ours.Seconds() / floor.Seconds(),
			Note: fmt.Sprintf("%.1f ms, %.1f ms; %d of each; %d FarmPods of %.0f bytes, Pods of %.0f", ours.Seconds()*1e3, floor.Seconds()*1e3,
				lists,
				items[0], float64(size[0])/float64(items[0]), float64(size[1])/float64(items[1]))})
	}
	return nil
}

const (
	// watchers is the number of parallel watches, each over its own connection.
	watchers = 300
	// fanOutChanges is the number of changes in each of fanOutRounds rounds of either side.
	fanOutChanges = 1000
	fanOutRounds  = 3
)

// servedWatches compares the events per second of watches of FarmPods and of Pods.
func (b *bench) servedWatches(ctx context.Context, f *farm) error {
	paths := [2]string{farmPodsPath, podsPath}
	var took [2][]time.Duration
	var resumed [2]int
	for i := range fanOutRounds {
		for turn := range paths {
			side := (i + turn) % 2
			one, ended, err := f.fanOut(ctx, paths[side], watchers)
			if err != nil {
				return fmt.Errorf("watching %s: %w", paths[side], err)
			}
			took[side] = append(took[side], one)
			resumed[side] += ended
			b.say("%s: %d changes to %d watchers in %.2f s", paths[side], fanOutChanges, watchers, one.Seconds())
		}
	}
	alone, _, err := f.fanOut(ctx, podsPath, 0)
	if err != nil {
		return err
	}
	events := float64(fanOutChanges * watchers)
	ours, floor := events/median(took[0]).Seconds(), events/median(took[1]).Seconds()
	b.add(Figure{Name: fmt.Sprintf("served: events a second to %d watchers over those of Pods", watchers), Kind: Ratio, Limit: new(1.0),
		AtLeast: true, Value: ours / floor,
		Note: fmt.Sprintf("%.0f, %.0f; %d changes, %d at once, in %.2f s, %.2f s, and %.2f s while nobody watches; the middle of %d; %d and %d watches were ended as too slow, and resumed",
			ours, floor, fanOutChanges, patchesAtOnce, median(took[0]).Seconds(), median(took[1]).Seconds(),
			alone.Seconds(), fanOutRounds, resumed[0], resumed[1])})
	return nil
}

// fanOut makes the changes. It returns the time from the first change until every watcher had all
// of them, and how many watches were ended meanwhile and resumed.
func (f *farm) fanOut(ctx context.Context, path string, watchers int) (time.Duration, int, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	all := make([]*watcher, watchers)
	ended := make(chan error, watchers)
	for i := range all {
		from, err := newReader(f.reader)
		if err != nil {
			return 0, 0, err
		}
		defer from.client.CloseIdleConnections()
		all[i] = &watcher{reader: from, path: path}
		if all[i].version, _, err = from.version(ctx, path+"?limit=1"); err != nil {
			return 0, 0, err
		}
		stream, err := all[i].watch(ctx)
		if err != nil {
			return 0, 0, err
		}
		go func() { ended <- all[i].await(ctx, stream, fanOutChanges) }()
	}
	start := time.Now()
	err := each(ctx, fanOutChanges, patchesAtOnce, func(ctx context.Context, i int) error { return f.change(ctx, i, start) })
	if err != nil {
		return 0, 0, err
	}
	resumed := 0
	for range all {
		if err := <-ended; err != nil {
			return 0, 0, err
		}
	}
	took := time.Since(start)
	for _, one := range all {
		resumed += one.resumed
	}
	return took, resumed, nil
}

// change changes a Pod as its kubelet would.
func (f *farm) change(ctx context.Context, i int, round time.Time) error {
	name := servedPod(i * (servedPods / fanOutChanges))
	body := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","message":"round %d"}]}}`, round.UnixNano())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	return f.client.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, body), client.FieldOwner(kubelet))
}

// watcher watches as an informer does, but does not decode.
type watcher struct {
	*reader
	path, version string
	// resumed is how often the API server ended the watch, as it does with slow clients.
	resumed int
}

func (w *watcher) watch(ctx context.Context) (io.ReadCloser, error) {
	return w.get(ctx, w.path+"?watch=true&resourceVersion="+w.version)
}

// await reads n events.
func (w *watcher) await(ctx context.Context, stream io.ReadCloser, n int) error {
	for seen := 0; ; w.resumed++ {
		read, last, err := readEvents(stream, n-seen)
		_ = stream.Close()
		if seen += read; err != nil || seen == n {
			return err
		}
		if read > 0 {
			var event struct{ Object metav1.PartialObjectMetadata }
			if err := json.Unmarshal(last, &event); err != nil {
				return err
			}
			w.version = event.Object.ResourceVersion
		}
		if stream, err = w.watch(ctx); err != nil {
			return fmt.Errorf("after %d of %d events: %w", seen, n, err)
		}
	}
}

// longestEvent is more than the length of any event.
const longestEvent = 64 << 10

// readEvents reads n events of one line each, or fewer if the stream ends. It also returns the last
// event.
func readEvents(stream io.Reader, n int) (int, []byte, error) {
	lines := bufio.NewReaderSize(stream, longestEvent)
	var last []byte
	for seen := range n {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return seen, last, nil
		}
		if err != nil {
			return seen, last, err
		}
		if bytes.HasPrefix(line, []byte(`{"type":"ERROR"`)) {
			return seen, last, fmt.Errorf("the watch returned an error: %s", line)
		}
		last = append(last[:0], line...)
	}
	return n, last, nil
}
