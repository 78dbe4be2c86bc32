package setup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/mainstay-platform/mainstay/internal/install/webhooks"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
)

// Converter converts objects of all kinds that have several versions, even of kinds that are off,
// because their objects are stored and read.
func Converter(scheme *runtime.Scheme) (http.Handler, error) {
	registry, keep := conversion.NewRegistry(), map[schema.GroupKind]func(source, converted []byte) ([]byte, error){}
	for _, k := range kinds() {
		if k.Converter == nil {
			continue
		}
		made, err := k.Converter(scheme)
		if err != nil {
			return nil, fmt.Errorf("making the converter of %s: %w", k.Name, err)
		}
		if err := registry.RegisterConverter(k.GroupKind, made); err != nil {
			return nil, fmt.Errorf("registering the converter of %s: %w", k.Name, err)
		}
		keep[k.GroupKind] = k.KeepUnknown
	}
	metrics.WebhookServed(webhooks.ConvertPath)
	return boundedConversion{conversion.NewWebhookHandler(scheme, registry), scheme, keep}, nil
}

const (
	// freeConversions is the number of objects in a review of any length, and bytesPerConversion how
	// many bytes it must have for each further one: a stored WebApp has more.
	freeConversions    = 500
	bytesPerConversion = 512
)

// boundedConversion refuses reviews that would cost more to convert than their length justifies,
// and keeps the fields that this release does not know.
type boundedConversion struct {
	http.Handler
	scheme *runtime.Scheme
	// keep has the function KeepUnknown of each kind.
	keep map[schema.GroupKind]func(source, converted []byte) ([]byte, error)
}

// ServeHTTP answers a review itself, or passes it on.
func (b boundedConversion) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	var review apiextensionsv1.ConversionReview
	if err != nil || json.Unmarshal(body, &review) != nil || review.Request == nil {
		response.WriteHeader(http.StatusBadRequest)
		return
	}
	if err := b.check(review.Request, len(body)); err != nil {
		refuse(response, review, err)
		return
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	converted := buffered{ResponseWriter: response}
	b.Handler.ServeHTTP(&converted, request)
	var made apiextensionsv1.ConversionReview
	if json.Unmarshal(converted.body.Bytes(), &made) != nil || made.Response == nil ||
		len(made.Response.ConvertedObjects) != len(review.Request.Objects) {
		metrics.WebhookFailed(webhooks.ConvertPath)
		_, _ = response.Write(converted.body.Bytes())
		return
	}
	hasUnknown, err := b.keepUnknown(review.Request.Objects, made.Response.ConvertedObjects)
	switch {
	case err != nil:
		metrics.WebhookFailed(webhooks.ConvertPath)
		refuse(response, review, err)
	case hasUnknown:
		_ = json.NewEncoder(response).Encode(made)
	default:
		_, _ = response.Write(converted.body.Bytes())
	}
}

// refuse answers a review with an error.
func refuse(response io.Writer, review apiextensionsv1.ConversionReview, err error) {
	review.Response = &apiextensionsv1.ConversionResponse{
		UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusFailure, Message: err.Error()},
	}
	review.Request = nil
	_ = json.NewEncoder(response).Encode(review)
}

// buffered keeps the body of a response, which is completed before it is sent.
type buffered struct {
	http.ResponseWriter
	body bytes.Buffer
}

// Write adds to the body.
func (b *buffered) Write(part []byte) (int, error) { return b.body.Write(part) }

// keepUnknown adds to the converted objects what their sources have and this release does not know,
// and reports whether there was anything.
func (b boundedConversion) keepUnknown(sources, converted []runtime.RawExtension) (hasUnknown bool, err error) {
	for i := range sources {
		var kind metav1.TypeMeta
		if err := json.Unmarshal(sources[i].Raw, &kind); err != nil {
			return false, fmt.Errorf("reading the kind of objects[%d]: %w", i, err)
		}
		keep := b.keep[kind.GroupVersionKind().GroupKind()]
		if keep == nil {
			continue
		}
		raw, err := keep(sources[i].Raw, converted[i].Raw)
		if err != nil {
			return false, fmt.Errorf("objects[%d]: %w", i, err)
		}
		hasUnknown = hasUnknown || !bytes.Equal(raw, converted[i].Raw)
		converted[i].Raw = raw
	}
	return hasUnknown, nil
}

// check returns why a request would cost too much to convert; length is that of its body in bytes.
func (b boundedConversion) check(request *apiextensionsv1.ConversionRequest, length int) error {
	if most := freeConversions + length/bytesPerConversion; len(request.Objects) > most {
		return fmt.Errorf("objects: Too many: %d: must have at most %d items in %d bytes", len(request.Objects), most, length)
	}
	budget := bounded.NewBudget(length) // the results are kept until all are converted
	for i := range request.Objects {
		raw := request.Objects[i].Raw
		var kind metav1.TypeMeta
		if json.Unmarshal(raw, &kind) != nil {
			continue // the decoder refuses it
		}
		object, err := b.scheme.New(schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind))
		if err != nil {
			continue
		}
		if err := budget.Check(raw, maxConversion, reflect.TypeOf(object)); err != nil {
			return fmt.Errorf("objects[%d]: %w", i, err)
		}
	}
	return nil
}
