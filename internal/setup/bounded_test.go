package setup

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics/metricstest"
)

// sent sends a body from an address, with its length unless chunked is set.
func sent(ctx context.Context, handler http.Handler, address, body string, chunked bool) int {
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body))
	request.RemoteAddr = address + ":1234"
	if chunked {
		request.ContentLength = -1
	}
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	return response.Code
}

// TestIntakeRefuses: what no API server sends is refused before anything is read.
func TestIntakeRefuses(t *testing.T) {
	arrived := ""
	handler := intakeOf(10).bounded(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		arrived = string(body)
	}))
	for name, test := range map[string]struct {
		body    string
		chunked bool
		want    int
	}{
		"too large":      {strings.Repeat("a", 11), false, http.StatusRequestEntityTooLarge},
		"without length": {"a", true, http.StatusLengthRequired},
		"as it must be":  {strings.Repeat("a", 10), false, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			arrived = ""
			if got := sent(t.Context(), handler, "10.0.0.1", test.body, test.chunked); got != test.want {
				t.Errorf("it is answered with %d, want %d", got, test.want)
			}
			if isThere := arrived == test.body; isThere != (test.want == http.StatusOK) {
				t.Errorf("%q arrived", arrived)
			}
		})
	}
}

// intakeOf returns an intake of its own for bodies of at most most bytes.
func intakeOf(most int64) *intake {
	return newIntake(most, longestConversion, semaphore.NewWeighted(parsedAtOnce))
}

// TestIntakeIsShared: one address can't take all the room, nor wait with any number of requests. A
// request waits as long as its caller, but not forever, and room that was waited for is not lost.
func TestIntakeIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 2 * small
		intake, release, served := intakeOf(most), make(chan struct{}), make(chan string, 10)
		handler := intake.bounded(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
			served <- request.RemoteAddr
			<-release
		}))
		whole := strings.Repeat("a", most)
		send := func(ctx context.Context, address string) <-chan int {
			answer := make(chan int, 1)
			go func() { answer <- sent(ctx, handler, address, whole, false) }()
			synctest.Wait()
			return answer
		}
		gone, cancel := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{t.Context(), t.Context(), gone} {
			send(ctx, "10.0.0.1")
		}
		if len(served) != 2 {
			t.Fatalf("%d requests of one address are served", len(served))
		}
		cancel()
		synctest.Wait()
		late := send(t.Context(), "10.0.0.1")
		if got := <-send(t.Context(), "10.0.0.1"); got != http.StatusTooManyRequests {
			t.Errorf("one that is too many is answered with %d", got)
		}
		time.Sleep(longestConversion)
		if got := <-late; got != http.StatusTooManyRequests {
			t.Errorf("one that waits too long is answered with %d", got)
		}
		waits := send(t.Context(), "10.0.0.1")
		send(t.Context(), "10.0.0.2")
		if len(served) != 3 {
			t.Fatal("another address waits for the first")
		}
		close(release)
		if got := <-waits; got != http.StatusOK {
			t.Errorf("one that waits is answered with %d", got)
		}
		synctest.Wait()
		if len(served) != 4 || len(intake.large.byAddress) != 0 || intake.large.waiting != 0 {
			t.Errorf("%d were served, %d addresses are remembered, and %d bytes wait", len(served), len(intake.large.byAddress),
				intake.large.waiting)
		}
		if !intake.large.all.TryAcquire(4*most) || !intake.parsing.TryAcquire(parsedAtOnce) {
			t.Error("room was lost")
		}
	})
}

// TestIntakeAtItsLimits: what the webhooks have room for, filled exactly and with one byte more: a
// body, those that arrive, those that wait, and what they are parsed into.
func TestIntakeAtItsLimits(t *testing.T) {
	parsing := semaphore.NewWeighted(parsedAtOnce)
	for name, test := range map[string]struct {
		intake         *intake
		most, arriving int64
	}{
		"admissions":  {newIntake(maxAdmission, readTime, parsing), 7 << 20, 28 << 20},
		"conversions": {newIntake(maxConversion, longestConversion, parsing), 16 << 20, 64 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			isSmall := false
			handler := test.intake.bounded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				isSmall = len(test.intake.small.byAddress) > 0
			}))
			for length, want := range map[int64]int{64 << 10: http.StatusOK, 64<<10 + 1: http.StatusOK, test.most: http.StatusOK,
				test.most + 1: http.StatusRequestEntityTooLarge} {
				isSmall = false
				if got := sent(t.Context(), handler, "10.0.0.1", strings.Repeat("a", int(length)), false); got != want {
					t.Errorf("%d bytes are answered with %d, want %d", length, got, want)
				}
				if want := length <= 64<<10; isSmall != want {
					t.Errorf("%d bytes count as small: %t", length, isSmall)
				}
			}
			checkRoom(t, test.intake.large, test.arriving)
			checkRoom(t, test.intake.small, 16<<20)
		})
	}
	if !parsing.TryAcquire(192<<20) || parsing.TryAcquire(1) {
		t.Error("what is parsed at once may not take exactly 192 MiB")
	}
	checkWindow(t)
}

// checkRoom fills a room, and leaves it so.
func checkRoom(t *testing.T, room *room, bytes int64) {
	t.Helper()
	first, second, third := room.shareOf("a"), room.shareOf("b"), room.shareOf("c")
	if !room.tryAcquire(first, bytes/2) || room.tryAcquire(first, 1) {
		t.Errorf("of %d bytes, one address may not take exactly half", bytes)
	}
	if !room.tryAcquire(second, bytes/2) || room.tryAcquire(third, 1) {
		t.Errorf("%d bytes are not all that may arrive", bytes)
	}
	if !room.queue(first, bytes/4) || room.queue(first, 1) {
		t.Errorf("of %d bytes, one address may not have exactly a quarter wait", bytes)
	}
	if !room.queue(second, bytes/4) || room.queue(third, 1) {
		t.Errorf("of %d bytes, not exactly half may wait", bytes)
	}
}

// checkWindow requires that a body that waits counts for at most 1 MiB.
func checkWindow(t *testing.T) {
	t.Helper()
	for length, want := range map[int64]int64{1 << 20: 1 << 20, 1<<20 + 1: 1 << 20} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			full := newRoom(8 << 20)
			full.all.TryAcquire(8 << 20)
			go full.acquire(ctx, full.shareOf("a"), length)
			synctest.Wait()
			if full.waiting != want {
				t.Errorf("a body of %d bytes that waits counts for %d", length, full.waiting)
			}
			cancel()
			synctest.Wait()
		})
	}
}

// TestAllThatWaitIsBounded: many addresses together may not wait with any number of requests
// either.
func TestAllThatWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 2 * small
		release, refused := make(chan struct{}), make(chan int, 10)
		handler := intakeOf(most).bounded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			<-release
		}))
		for i := range 10 {
			go func() {
				if got := sent(t.Context(), handler, fmt.Sprintf("10.0.0.%d", i), strings.Repeat("a", most), false); got != http.StatusOK {
					refused <- got
				}
			}()
		}
		synctest.Wait()
		if len(refused) != 4 || <-refused != http.StatusTooManyRequests {
			t.Errorf("%d of 10 are refused: want all but the four that fit and the two that may wait", len(refused))
		}
		close(release)
		synctest.Wait()
	})
}

// timed records the deadlines for reading.
type timed struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

// SetReadDeadline is for http.ResponseController.
func (t *timed) SetReadDeadline(at time.Time) error {
	t.deadlines = append(t.deadlines, at)
	return nil
}

// TestDeadlineOfBody: the deadline for a body ends with it. Over HTTP/1 it would cancel the request
// while it is handled.
func TestDeadlineOfBody(t *testing.T) {
	response := &timed{ResponseRecorder: httptest.NewRecorder()}
	handler := intakeOf(10).bounded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if len(response.deadlines) != 2 || response.deadlines[0].IsZero() || !response.deadlines[1].IsZero() {
			t.Errorf("the deadlines are %v", response.deadlines)
		}
	}))
	handler.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("a")))
	if response.Code != http.StatusOK || len(response.deadlines) == 0 {
		t.Errorf("answered with %d after the deadlines %v", response.Code, response.deadlines)
	}
}

// TestSmallBodiesAreNotDelayed: large bodies that hold all their room leave that of small ones.
func TestSmallBodiesAreNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 2 * small
		release, served := make(chan struct{}), make(chan int64, 10)
		handler := intakeOf(most).bounded(http.HandlerFunc(
			func(_ http.ResponseWriter, request *http.Request) {
				served <- request.ContentLength
				<-release
			}))
		for i := range 6 {
			go sent(t.Context(), handler, fmt.Sprintf("10.0.0.%d", i/2), strings.Repeat("a", most), false)
		}
		synctest.Wait()
		go sent(t.Context(), handler, "10.0.0.9", "a", false)
		synctest.Wait()
		if len(served) != 5 {
			t.Errorf("%d bodies are served: want the four large ones that fit, and the small one", len(served))
		}
		close(release)
		synctest.Wait()
	})
}

// TestBodiesThatGrow: bodies that may take all the memory when they are parsed are parsed in turn.
func TestBodiesThatGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, served := make(chan struct{}), make(chan string, 10)
		intake := intakeOf(maxAdmission)
		handler := intake.bounded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			served <- ""
			<-release
		}))
		growing := strings.Repeat("{},", 2_000_000)
		for i := range 3 {
			go sent(t.Context(), handler, fmt.Sprintf("10.0.0.%d", i), growing, false)
		}
		synctest.Wait()
		if len(served) != 1 {
			t.Errorf("%d of them are parsed at once", len(served))
		}
		close(release)
		synctest.Wait()
		if len(served) != 3 {
			t.Errorf("%d of 3 were parsed", len(served))
		}
	})
}

// TestUnservedHooks: a review for a hook that this replica does not have is admitted, with a
// warning and in its own version. Other paths are unknown.
func TestUnservedHooks(t *testing.T) {
	mux, served := http.NewServeMux(), ""
	hook := admission.Hook{Path: "/validate/a", Handler: http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		served = request.URL.Path
	})}
	registerHooks(mux.Handle, []admission.Hook{hook}, intakeOf(maxAdmission))
	ask := func(path, body string) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		response := httptest.NewRecorder()
		mux.ServeHTTP(response, request)
		return response
	}
	for _, group := range []string{"admission.k8s.io/v1", "admission.k8s.io/v1beta1"} {
		for _, path := range []string{"/validate/b", "/mutate/b", "/mutate/a"} {
			response := ask(path, `{"apiVersion":"`+group+`","kind":"AdmissionReview","request":{"uid":"7","operation":"CREATE","object":{}}}`)
			var got admissionv1.AdmissionReview
			if err := json.Unmarshal(response.Body.Bytes(), &got); err != nil || response.Code != http.StatusOK || got.Response == nil {
				t.Fatalf("%s is answered with %d %s: %v", path, response.Code, response.Body, err)
			}
			if got.APIVersion != group || got.Kind != "AdmissionReview" || got.Response.UID != "7" || !got.Response.Allowed ||
				got.Response.Patch != nil || len(got.Response.Warnings) != 1 || !strings.Contains(got.Response.Warnings[0], path) {
				t.Errorf("%s is answered with %s", path, response.Body)
			}
		}
	}
	if got := ask("/validate/b", "garbage").Body.String(); !strings.Contains(got, `"allowed":false`) {
		t.Errorf("what is no review is answered with %s", got)
	}
	if got := ask("/other", "{}").Code; got != http.StatusNotFound {
		t.Errorf("another path is answered with %d", got)
	}
	if ask("/validate/a", "{}"); served != "/validate/a" {
		t.Error("the hook is not called")
	}
}

// TestConversionIsBounded: a review of many tiny objects, or with a quantity that costs minutes, is
// answered with a failure that names it, at once. What can't be converted at all is counted for an
// alert.
func TestConversionIsBounded(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	handler, err := Converter(scheme)
	if err != nil {
		t.Fatal(err)
	}
	if !metricstest.Exists(t, "mainstay_webhook_failures_total", "/convert") {
		t.Error("failures are not counted from 0, so that a rate does not have the first")
	}
	const older = `{"apiVersion":"apps.mainstay.dev/v1beta1","kind":"WebApp","metadata":{"name":"a"},"spec":{"image":"a"}}`
	bomb := strings.Replace(strings.Replace(older, "v1beta1", "v1", 1), `"image":"a"`, `"resources":{"limits":{"cpu":"1e-999999999"}}`, 1)
	for name, test := range map[string]struct{ objects, want string }{
		"one":     {older, `"status":"Success"`},
		"at most": {strings.Repeat(older+",", freeConversions-1) + older, `"status":"Success"`},
		"beyond":  {strings.Repeat(older+",", 1000) + older, "objects: Too many: 1001: must have at most"},
		"large together": {strings.Repeat(strings.Replace(strings.Replace(older, "v1beta1", "v1", 1), `"image":"a"`,
			`"sidecars":[`+strings.Repeat("{},", 300)+`{}]`, 1)+",", 100) + older, "may not have more than 1000 objects, plus one for each 16 bytes"},
		"a later field": {strings.Replace(older, `"name":"a"`, `"name":"a","annotations":{"mainstay.dev/v1-spec":"{\"later\":{\"x\":1}}"}`, 1),
			`"later":{"x":1}`},
		"an unknown version": {strings.Replace(older, "v1beta1", "v9", 1), `"status":"Failure"`},
		"an object":          {bomb, `objects[0]: spec.resources.limits[cpu]: Invalid value`},
		"a stash": {strings.Replace(older, `"name":"a"`,
			`"name":"a","annotations":{"mainstay.dev/v1-spec":"{\"resources\":{\"limits\":{\"cpu\":\"1e-999999999\"}}}"}`, 1), `"status":"Success"`},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1","desiredAPIVersion":` +
				`"apps.mainstay.dev/v1","objects":[` + test.objects + `]}}`
			failed := func() float64 { return metricstest.Counted(t, "mainstay_webhook_failures_total", "/convert") }
			before := failed()
			got := post(t, handler, body).Body.String()
			if !strings.Contains(got, test.want) {
				t.Errorf("got %.300s, want %s", got, test.want)
			}
			if counted := failed() - before; (counted == 1) != (name == "an unknown version") || counted > 1 {
				t.Errorf("counted as %v failures: %.300s", counted, got)
			}
		})
	}
}
