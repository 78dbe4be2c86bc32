// Package access protects an endpoint as an API server would: the API server authenticates a caller
// by its token, and authorizes it. Rights on a path are granted with RBAC's nonResourceURLs.
//
// controller-runtime has a filter that does the same (pkg/metrics/filters). It depends on the
// libraries of a whole API server: with it the manager's binary had 57.0 MB instead of 36.9
// (2026-11, linux/amd64, stripped).
package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// allowedFor and refusedFor are how long an answer is cached: a revoked right lasts as long.
	allowedFor = time.Minute
	refusedFor = 10 * time.Second
	// withoutAnswer is how long a permission lasts while the API server is down, which is when metrics
	// are needed most. The API server is tried again every refusedFor.
	withoutAnswer = time.Hour
	// remembered is the number of cached answers, separately for permissions and refusals; there are a
	// few scrapers.
	remembered = 256
	// longestToken is far above the length of tokens: those of ServiceAccounts have about one
	// kilobyte.
	longestToken = 16 << 10
	// asksPerSecond and asksAtOnce bound the reviews that strangers with made-up tokens can cause, and
	// separately those of callers who were allowed before.
	asksPerSecond, asksAtOnce = 5, 20
	// askTimeout bounds the reviews of one question. Prometheus waits 10 s by default.
	askTimeout = 5 * time.Second
)

// Gate decides which requests pass. It is safe for concurrent use.
type Gate struct {
	// known reviews callers who were allowed before, and strange all others: strangers delay only
	// strangers.
	known, strange reviews
	// allowed and refused are cached answers. Made-up tokens are refused, so they evict no permission.
	allowed, refused *cache.LRUExpireCache
	// asking are the reviews under way, one for each question.
	asking singleflight.Group
	clock  clock.PassiveClock
}

// reviews are clients of the API server with a rate limit of their own.
type reviews struct {
	tokens authenticationv1client.TokenReviewInterface
	rights authorizationv1client.SubjectAccessReviewInterface
}

// permission is a positive answer. given is when the API server gave it, until is how long it
// lasts.
type permission struct{ given, until time.Time }

// refusal is a negative answer.
type refusal struct {
	status int
	until  time.Time
}

// New returns a Gate that asks the API server of config. It makes no call. It needs the right to
// create tokenreviews and subjectaccessreviews.
func New(config *rest.Config) (*Gate, error) {
	known, err := newReviews(config)
	if err != nil {
		return nil, err
	}
	strange, err := newReviews(config)
	if err != nil {
		return nil, err
	}
	return newGate(known, strange, clock.RealClock{}), nil
}

func newReviews(config *rest.Config) (reviews, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.RateLimiter = asksPerSecond, asksAtOnce, nil
	tokens, err := authenticationv1client.NewForConfig(config)
	if err != nil {
		return reviews{}, fmt.Errorf("connecting to the API server: %w", err)
	}
	rights, err := authorizationv1client.NewForConfig(config)
	if err != nil {
		return reviews{}, fmt.Errorf("connecting to the API server: %w", err)
	}
	return reviews{tokens.TokenReviews(), rights.SubjectAccessReviews()}, nil
}

func newGate(known, strange reviews, clock clock.PassiveClock) *Gate {
	return &Gate{
		known: known, strange: strange, clock: clock,
		allowed: cache.NewLRUExpireCacheWithClock(remembered, clock), refused: cache.NewLRUExpireCacheWithClock(remembered, clock),
	}
}

// question is the key of a cached answer. It has the token's hash, so that no token is stored.
type question struct {
	token      [sha256.Size]byte
	verb, path string
}

// key returns the question as text.
func (q question) key() string { return fmt.Sprintf("%x %s %s", q.token, q.verb, q.path) }

// Filter puts the Gate before a handler: 401 for an unknown caller, 403 for a caller without the
// right, 503 while the API server can't be asked.
func (g *Gate) Filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		token, ok := bearer(request)
		if !ok {
			refuse(response, http.StatusUnauthorized)
			return
		}
		asked := question{token: sha256.Sum256([]byte(token)), verb: strings.ToLower(request.Method), path: request.URL.Path}
		status, err := g.decide(request.Context(), token, asked)
		if err != nil {
			if request.Context().Err() == nil { // else the client has closed its connection
				ctrl.Log.WithName("access").Error(err, "Authorizing a request", "path", asked.path)
			}
			refuse(response, http.StatusServiceUnavailable)
			return
		}
		answer(response, request, status, next)
	})
}

// decide returns the cached answer, or that of the API server. Callers with one question share one
// review, which has a context of its own: neither a client that closes its connection nor many
// requests at once may look like an API server that is down, because then a permission lasts
// longer.
func (g *Gate) decide(ctx context.Context, token string, asked question) (int, error) {
	if status, isKnown := g.cached(asked); isKnown {
		return status, nil
	}
	answered := g.asking.DoChan(asked.key(), func() (any, error) {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		return g.ask(own, token, asked)
	})
	select {
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting for a review: %w", ctx.Err())
	case result := <-answered:
		status, _ := result.Val.(int)
		return status, result.Err
	}
}

// cached returns the cached answer, and whether there is one that counts.
func (g *Gate) cached(asked question) (status int, isKnown bool) {
	now := g.clock.Now()
	found, _ := g.refused.Get(asked)
	if refused, is := found.(refusal); is && now.Before(refused.until) {
		return refused.status, true
	}
	found, _ = g.allowed.Get(asked)
	allowed, is := found.(permission)
	return http.StatusOK, is && now.Before(allowed.until)
}

// ask returns the answer of the API server, and caches it. While the API server is down a
// permission lasts longer. There may be no two calls at a time about one question.
func (g *Gate) ask(ctx context.Context, token string, asked question) (int, error) {
	if status, isKnown := g.cached(asked); isKnown { // by a review that has just ended
		return status, nil
	}
	now := g.clock.Now()
	found, _ := g.allowed.Get(asked)
	before, wasAllowed := found.(permission)
	api := g.strange
	if wasAllowed {
		api = g.known
	}
	status, err := api.about(ctx, token, asked)
	switch {
	case err != nil && !wasAllowed:
		return 0, err
	case err != nil:
		before.until = now.Add(refusedFor)
		g.allowed.Add(asked, before, withoutAnswer-now.Sub(before.given))
		return http.StatusOK, nil //nolint:nilerr // an API server that is down takes no permission away
	case status == http.StatusOK:
		g.allowed.Add(asked, permission{now, now.Add(allowedFor)}, withoutAnswer)
	default:
		g.allowed.Remove(asked)
		g.refused.Add(asked, refusal{status, now.Add(refusedFor)}, refusedFor)
	}
	return status, nil
}

func answer(response http.ResponseWriter, request *http.Request, status int, next http.Handler) {
	if status == http.StatusOK {
		next.ServeHTTP(response, request)
		return
	}
	refuse(response, status)
}

// refuse responds with the status only.
func refuse(response http.ResponseWriter, status int) {
	if status == http.StatusUnauthorized {
		response.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(response, http.StatusText(status), status)
}

// bearer returns the token of a request.
func bearer(request *http.Request) (string, bool) {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != "" && len(token) <= longestToken
}

// about authenticates the token's owner and checks the right. The right to do so is in the chart's
// templates/metrics.yaml, because only metrics need it.
func (r reviews) about(ctx context.Context, token string, asked question) (int, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := r.tokens.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("reviewing a token: %w", err)
	}
	if !review.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := review.Status.User
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: asked.path, Verb: asked.verb},
	}}
	for key, values := range user.Extra {
		access.Spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	access, err = r.rights.Create(ctx, access, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("reviewing the rights of %s: %w", user.Username, err)
	}
	if !access.Status.Allowed || access.Status.Denied {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
