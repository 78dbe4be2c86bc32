package aggregated

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// TestUncounted: watches and probes do not count as concurrent requests, everything else does.
func TestUncounted(t *testing.T) {
	t.Parallel()
	var config genericapiserver.Config
	limit(&config)
	if config.BuildHandlerChainFunc == nil {
		t.Error("users have no limit")
	}
	for path, one := range map[string]struct {
		verb string
		want bool
	}{
		"/livez": {"get", true}, "/readyz": {"get", true}, "/readyz/farmpods": {"get", false}, "/metrics": {"get", false},
		"/openapi/v2": {"get", false}, "/apis/farm.mainstay.dev/v1alpha1/farmpods": {"list", false},
		"/apis/farm.mainstay.dev/v1alpha1/llamas": {"watch", true},
	} {
		info := &apirequest.RequestInfo{Verb: one.verb, Path: path}
		if got := config.LongRunningFunc(httptest.NewRequest(http.MethodGet, path, nil), info); got != one.want {
			t.Errorf("%s %s: %t, expected %t", one.verb, path, got, one.want)
		}
	}
}

// TestShares: a user gets no more than a share of the concurrent reads, and of the writes. Others
// do not notice.
func TestShares(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	each := &shares{reads: 2, writes: 1, isUncounted: isUncounted(), taken: map[claim]int{}}
	handler := each.limit(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-release
		}
	}))
	answer := func(verb, path, name string, groups ...string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodGet, path, nil)
		ctx := apirequest.WithRequestInfo(request.Context(), &apirequest.RequestInfo{Verb: verb, Path: path})
		ctx = apirequest.WithUser(ctx, &user.DefaultInfo{Name: name, Groups: groups})
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request.WithContext(ctx))
		return recorder
	}
	ended := make(chan int)
	for _, verb := range []string{"list", "get", "create"} {
		go func() { ended <- answer(verb, "/slow", "carla").Code }()
		<-arrived
	}
	for name, one := range map[string]struct {
		got  *httptest.ResponseRecorder
		want int
	}{
		"a further read":            {answer("list", "/", "carla"), http.StatusTooManyRequests},
		"a further write":           {answer("patch", "/", "carla"), http.StatusTooManyRequests},
		"a read of another user":    {answer("list", "/", "dora"), http.StatusOK},
		"a write of another user":   {answer("update", "/", "dora"), http.StatusOK},
		"a watch":                   {answer("watch", "/", "carla"), http.StatusOK},
		"a probe":                   {answer("get", "/readyz", "carla"), http.StatusOK},
		"a read of a cluster-admin": {answer("list", "/", "carla", user.SystemPrivilegedGroup), http.StatusOK},
	} {
		if one.got.Code != one.want {
			t.Errorf("%s: answered %d, expected %d", name, one.got.Code, one.want)
		}
		if is := one.got.Header().Get("Retry-After") == "1"; is != (one.want == http.StatusTooManyRequests) {
			t.Errorf("%s: the client is asked to retry: %t", name, is)
		}
	}
	close(release)
	for range 3 {
		if got := <-ended; got != http.StatusOK {
			t.Errorf("a slow request: answered %d", got)
		}
	}
	if got := answer("list", "/", "carla").Code; got != http.StatusOK {
		t.Errorf("when they have ended: answered %d", got)
	}
	if len(each.taken) > 0 {
		t.Errorf("still counted: %v", each.taken)
	}
}
