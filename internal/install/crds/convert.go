package crds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// defaultServicePort is the port that the API server fills in for a webhook's Service.
const defaultServicePort = 443

// Convert configures the conversion webhook for every definition of ours that has several versions,
// and serves all of them. The webhook must answer already: from now on the API server calls it for
// every object that is read or written in another version than it is stored in. The API server may
// take some seconds to follow.
//
// A missing definition is an error: call Install first.
func Convert(ctx context.Context, c client.Client, webhook apiextensionsv1.WebhookClientConfig) error {
	definitions, err := carried()
	if err != nil {
		return err
	}
	conversion := conversionBy(webhook)
	for _, d := range definitions {
		if len(d.versions) < 2 {
			continue
		}
		live, err := d.read(ctx, c)
		if err != nil {
			return err
		}
		if live == nil {
			return fmt.Errorf("reading CustomResourceDefinition %s: not installed", d.name)
		}
		if d.isOlderThan(live.Annotations) {
			// After a rollback: keep the text, but point the conversion to this release and its certificate.
			if err := redirect(ctx, c, live, conversion); err != nil {
				return err
			}
			continue
		}
		if isConverted(d, live, conversion) {
			continue
		}
		if err := d.apply(ctx, c, conversion, d.versions); err != nil {
			return err
		}
		log.FromContext(ctx).Info("Serving all versions", "definition", d.name, "versions", d.versions)
	}
	return nil
}

// redirect changes the conversion webhook of a definition that has one, and nothing else.
func redirect(ctx context.Context, c client.Client, live *apiextensionsv1.CustomResourceDefinition,
	conversion *apiextensionsv1.CustomResourceConversion) error {
	if !usesWebhook(live) || equality.Semantic.DeepEqual(live.Spec.Conversion, conversion) {
		return nil
	}
	changed := live.DeepCopy()
	changed.Spec.Conversion = conversion
	if err := c.Patch(ctx, changed, client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("redirecting the conversion of CustomResourceDefinition %s: %w", live.Name, err)
	}
	return nil
}

// conversionBy returns the conversion stanza with the API server's defaults, so that the two can be
// compared.
func conversionBy(webhook apiextensionsv1.WebhookClientConfig) *apiextensionsv1.CustomResourceConversion {
	webhook = *webhook.DeepCopy()
	if webhook.Service != nil && webhook.Service.Port == nil {
		webhook.Service.Port = ptr.To[int32](defaultServicePort)
	}
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: &webhook, ConversionReviewVersions: []string{"v1"}},
	}
}

func isConverted(d definition, live *apiextensionsv1.CustomResourceDefinition, conversion *apiextensionsv1.CustomResourceConversion) bool {
	served := servedIn(live)
	unserved := func(name string) bool { return !slices.Contains(served, name) }
	return d.isOf(live.Annotations) && equality.Semantic.DeepEqual(live.Spec.Conversion, conversion) &&
		!slices.ContainsFunc(d.versions, unserved)
}

// Withdraw removes the webhook from our definitions and leaves only the storage version served, so
// that they work without Mainstay. It fails, and changes nothing, while a definition may have
// objects stored in another version, because nothing could read them then: call Migrate first.
func Withdraw(ctx context.Context, c client.Client) error {
	definitions, err := carried()
	if err != nil {
		return err
	}
	var needed []definition
	var problems []error
	for _, d := range definitions {
		live, err := d.read(ctx, c)
		if err != nil {
			return err
		}
		if live == nil || d.isOlderThan(live.Annotations) || isWithdrawn(live) {
			continue
		}
		if storage, others := storedIn(live); len(others) > 0 {
			problems = append(problems, fmt.Errorf("withdrawing the conversion of CustomResourceDefinition %s: objects may still be stored in %s: migrate them to %s first",
				d.name, strings.Join(others, ", "), storage))
			continue
		}
		needed = append(needed, d)
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	for _, d := range needed {
		if err := d.apply(ctx, c, unconverted(), nil); err != nil {
			return err
		}
		log.FromContext(ctx).Info("Serving the storage version only", "definition", d.name)
	}
	return nil
}

// unconverted returns the conversion stanza without a webhook. The strategy is explicit, so that a
// webhook stanza with another field owner causes an error and is not kept.
func unconverted() *apiextensionsv1.CustomResourceConversion {
	return &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
}

func isWithdrawn(live *apiextensionsv1.CustomResourceDefinition) bool {
	storage, _ := storedIn(live)
	return !usesWebhook(live) && slices.Equal(servedIn(live), []string{storage})
}
