package crds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-platform/mainstay/internal/kit/jsonpatch"
)

// defaultServicePort is the port that the API server fills in for a webhook's Service.
const defaultServicePort = 443

// Convert configures the conversion webhook for every definition of ours that has several versions,
// and serves all of them that this release knows, whichever release's text it has. The webhook must
// answer already: from now on the API server calls it for every object that is read or written in
// another version than it is stored in. The API server may take some seconds to follow.
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
		served := d.convertible(live)
		if equality.Semantic.DeepEqual(live.Spec.Conversion, conversion) && slices.Equal(servedIn(live), served) {
			continue
		}
		if err := d.setConversion(ctx, c, live, conversion, served); err != nil {
			return err
		}
		log.FromContext(ctx).Info("Serving all versions", "definition", d.name, "versions", served)
	}
	return nil
}

// convertible returns the versions that a live definition serves with our webhook: those that this
// release knows, and those that it serves already.
func (d definition) convertible(live *apiextensionsv1.CustomResourceDefinition) []string {
	var names []string
	for _, v := range live.Spec.Versions {
		if v.Served || slices.Contains(d.versions, v.Name) {
			names = append(names, v.Name)
		}
	}
	return names
}

// setConversion changes the conversion of a live definition and which versions it serves, and not
// its text, which may be that of another release: of a later one after a rollback, or of any where
// the manager does not install definitions.
//
// It applies our text where that is the live one already. A patch would take spec.versions from the
// fields that were applied as Helm, and Helm 4 could then not install another release's text.
func (d definition) setConversion(ctx context.Context, c client.Client, live *apiextensionsv1.CustomResourceDefinition,
	conversion *apiextensionsv1.CustomResourceConversion, served []string) error {
	isOurs, err := d.isIn(live)
	if err != nil {
		return err
	}
	if isOurs && !d.isOlderThan(live.Annotations) {
		return d.apply(ctx, c, conversion, served)
	}
	patch, err := conversionPatch(live, conversion, served)
	if err != nil {
		return fmt.Errorf("encoding the conversion of CustomResourceDefinition %s: %w", d.name, err)
	}
	if err := c.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("changing the conversion of CustomResourceDefinition %s: %w", d.name, err)
	}
	return nil
}

// conversionPatch returns the JSON patch by which a live definition converts and serves as given.
// It goes field by field, because a version may have fields that this release does not know and
// would drop, and fails if the versions are others by then.
func conversionPatch(live *apiextensionsv1.CustomResourceDefinition, conversion *apiextensionsv1.CustomResourceConversion,
	served []string) ([]byte, error) {
	operations := []jsonpatch.Operation{{Op: "add", Path: "/spec/conversion", Value: conversion}}
	for at, v := range live.Spec.Versions {
		path := fmt.Sprintf("/spec/versions/%d/", at)
		if isServed := slices.Contains(served, v.Name); isServed != v.Served {
			operations = append(operations, jsonpatch.Operation{Op: "test", Path: path + "name", Value: v.Name},
				jsonpatch.Operation{Op: "test", Path: path + "storage", Value: v.Storage},
				jsonpatch.Operation{Op: "replace", Path: path + "served", Value: isServed})
		}
	}
	return json.Marshal(operations)
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

// Withdraw removes the webhook from our definitions and leaves only the storage version served, so
// that they work without Mainstay, whichever release's text they have. It fails, and changes
// nothing, while a definition may have objects stored in another version, because nothing could
// read them then: call Migrate first.
func Withdraw(ctx context.Context, c client.Client) error {
	definitions, err := carried()
	if err != nil {
		return err
	}
	var withdrawals []func() error
	var problems []error
	for _, d := range definitions {
		live, err := d.read(ctx, c)
		if err != nil {
			return err
		}
		if live == nil || isWithdrawn(live) {
			continue
		}
		if storage, others := storedIn(live); len(others) > 0 {
			problems = append(problems, fmt.Errorf("withdrawing the conversion of CustomResourceDefinition %s: objects may still be stored in %s: migrate them to %s first",
				d.name, strings.Join(others, ", "), storage))
			continue
		}
		withdrawals = append(withdrawals, func() error { return d.withdraw(ctx, c, live) })
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	for _, withdraw := range withdrawals {
		if err := withdraw(); err != nil {
			return err
		}
	}
	return nil
}

// withdraw makes a live definition serve only its storage version, without a webhook. Others would
// silently lose the fields that only they have.
func (d definition) withdraw(ctx context.Context, c client.Client, live *apiextensionsv1.CustomResourceDefinition) error {
	storage, _ := storedIn(live)
	if err := d.setConversion(ctx, c, live, unconverted(), []string{storage}); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Serving the storage version only", "definition", d.name)
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
