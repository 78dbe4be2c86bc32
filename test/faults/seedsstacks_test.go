package faults

import (
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// Bugs of the kinds that consist of objects of others of ours.

var appStackSeeds = []seed{{
	name:    "the status is written before the components",
	bug:     always(statusFirst("appconfigs", "platform.mainstay.dev/v1", "appstacks", "mainstay/appstack")),
	options: at(proxy.KillBefore, "patch", "appconfigs", 6),
	reason:  campaign.Claimed, text: "in step rename",
}}

var platformSeeds = []seed{{
	name:    "the status is written before the stack",
	bug:     always(statusFirst("appstacks", "platform.mainstay.dev/v1", "ecommerceplatforms", "mainstay/ecommerceplatform")),
	options: at(proxy.KillBefore, "patch", "appstacks", 3),
	reason:  campaign.Claimed, text: "in step update",
}}
