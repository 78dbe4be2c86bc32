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

	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// converter converts objects of all kinds that have several versions, even of kinds that are off,
// because their objects are stored and read.
func converter(scheme *runtime.Scheme) (http.Handler, error) {
	registry := conversion.NewRegistry()
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
	}
	return boundedConversion{conversion.NewWebhookHandler(scheme, registry), scheme}, nil
}

const (
	// freeConversions is the number of objects in a review of any length, and bytesPerConversion how
	// many bytes it must have for each further one: a stored WebApp has more.
	freeConversions    = 500
	bytesPerConversion = 512
)

// boundedConversion refuses reviews that would cost more to convert than their length justifies.
type boundedConversion struct {
	http.Handler
	scheme *runtime.Scheme
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
		review.Response = &apiextensionsv1.ConversionResponse{
			UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusFailure, Message: err.Error()},
		}
		review.Request = nil
		_ = json.NewEncoder(response).Encode(review)
		return
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	b.Handler.ServeHTTP(response, request)
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
