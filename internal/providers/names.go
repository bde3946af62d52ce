package providers

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/effort"
	"github.com/superstep-dev/superstep/internal/offline"
)

var (
	vendorNote = regexp.MustCompile(`(?i)\s*\((?:github )?copilot\)\s*$`)
	longWindow = regexp.MustCompile(`(?i)\[1m\]$`)
	version    = regexp.MustCompile(`-(\d{1,2})-(\d{1,2})(-|$)`)
	point      = regexp.MustCompile(`(\d)\.(\d)`)
)

// Resolve returns the model that a name of an agent's definition stands for, as "provider/model".
// It knows provider/model, the words sonnet, opus and haiku, names of models without a
// provider such as claude-sonnet-4-5, gpt-5 and gemini-2.5-pro, names as Copilot shows them ("GPT-4.1
// (copilot)"), a provider alone, and offline. "", "inherit" and "default" are the fallback.
//
// If a model's provider is not configured, Resolve returns the model at OpenRouter if there is a
// key for that, or else the fallback, and a note about it; otherwise the note is "". A missing
// fallback or an unknown name is an error. Errors are of type [*Error]. Nothing is sent.
//
// A name can end with an effort, as in "sonnet#high". It goes to whichever model is returned, instead of the fallback's own.
func (p *Providers) Resolve(name, fallback string) (resolved, note string, err error) {
	if err := checkEffort(name); err != nil {
		return "", "", err
	}
	base, word := effort.Split(name)
	resolved, note, err = p.resolve(base, fallback)
	return effort.Instead(resolved, word), note, err
}

func (p *Providers) resolve(name, fallback string) (resolved, note string, err error) {
	asked := strings.TrimSpace(name)
	bare := longWindow.ReplaceAllString(vendorNote.ReplaceAllString(asked, ""), "")
	switch low := strings.ToLower(bare); {
	case bare == "" || low == "inherit" || low == "default":
		return fallback, "", nil
	case low == offline.Name:
		return offline.Name, "", nil
	}
	if len(bare) > 200 {
		return "", "", p.unknown(asked)
	}
	if e, rest := p.find(bare); e != nil && rest != "" {
		return p.settle(asked, e, rest, fallback)
	} else if e != nil {
		return "", "", p.incomplete(e)
	}
	slug := strings.ToLower(strings.Join(strings.Fields(strings.NewReplacer("(", " ", ")", " ").Replace(bare)), "-"))
	if strings.Contains(slug, "/") {
		// A vendor that is no provider here is available through OpenRouter.
		if e := p.provider("openrouter"); e != nil && p.configured(e) {
			if m, ok := p.table().Find("openrouter/" + slug); ok {
				return m.Name, fmt.Sprintf("%s is asked for by openrouter", shorten(asked)), nil
			}
		}
		return "", "", p.unknown(asked)
	}
	if e := p.provider(slug); e != nil {
		model := p.standard(e)
		if model == "" {
			return "", "", p.incomplete(e)
		}
		return p.settle(asked, e, model, fallback)
	}
	e, model := p.family(slug)
	if e == nil {
		return "", "", p.unknown(asked)
	}
	return p.settle(asked, e, model, fallback)
}

// family returns the vendor of a model by its name alone, or nil if unknown.
func (p *Providers) family(slug string) (*endpoint, string) {
	if word := tiers()[slug]; word != "" {
		if m, ok := p.table().Newest(nameAnthropic, word); ok {
			return p.provider(nameAnthropic), strings.TrimPrefix(m.Name, nameAnthropic+"/")
		}
		return nil, ""
	}
	for _, f := range families() {
		if !strings.HasPrefix(slug+"-", f[0]) {
			continue
		}
		e := p.provider(f[1])
		if e == nil {
			return nil, ""
		}
		if f[1] == nameAnthropic {
			slug = point.ReplaceAllString(slug, "$1-$2") // its own names have no points
		}
		known := func(s string) bool { _, ok := p.table().Find(f[1] + "/" + s); return ok }
		if short := strings.TrimSuffix(slug, "-preview"); !known(slug) && known(short) {
			slug = short
		} else if !known(slug) && known(slug+"-preview") {
			slug += "-preview"
		}
		return e, slug
	}
	return nil, ""
}

// settle returns a model of a provider if the provider is configured, or else its replacement.
func (p *Providers) settle(asked string, e *endpoint, model, fallback string) (string, string, error) {
	lacks := p.ready(e)
	if lacks == nil {
		return e.name + "/" + model, "", nil
	}
	if router := p.provider("openrouter"); router != nil && e.vendor != "" && p.ready(router) == nil {
		name := router.name + "/" + e.vendor + "/" + routed(e, model)
		return name, fmt.Sprintf("%s is asked for by openrouter, because %s %s", shorten(asked), e.name, lacks.Message), nil
	}
	if fallback != "" {
		return fallback, fmt.Sprintf("%s is not configured: %s %s; %s is used instead", shorten(asked), e.name, lacks.Message, fallback), nil
	}
	lacks.Name, lacks.Model = asked, e.name+"/"+model
	lacks.Message = "model " + shorten(e.name+"/"+model) + " " + lacks.Message
	if router := p.provider("openrouter"); router != nil && e.vendor != "" && len(router.keys) > 0 && !p.opt.Offline {
		lacks.Hints = slices.Insert(slices.Clone(lacks.Hints), 1, "or set "+router.keyName()+", which has it too")
	}
	return "", "", lacks
}

// routed returns OpenRouter's name for a model: Anthropic's models have points instead of dashes
// there, and no dates.
func routed(e *endpoint, model string) string {
	if e.name != nameAnthropic {
		return model
	}
	if i := strings.LastIndex(model, "-20"); i > 0 && len(model)-i == len("-20250929") {
		model = model[:i]
	}
	return version.ReplaceAllString(model, "-$1.$2$3")
}

// standard returns the model of a provider that is used when none is named, "" for none.
func (p *Providers) standard(e *endpoint) string {
	if e.newest != "" {
		if m, ok := p.table().Newest(e.name, e.newest); ok {
			return strings.TrimPrefix(m.Name, e.name+"/")
		}
	}
	return e.standard
}
