// Package openai asks models over OpenAI's Chat Completions API, which many servers speak.
//
// The SDK gives authentication, headers and the reading of events. The body that is sent and the message that
// comes back are handled as raw JSON, because the SDK's types would change their bytes and drop members of
// other servers.
package openai

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/internal/exchange"
)

// Config is what a client needs. Nothing is read from the environment.
type Config struct {
	// Name is the provider's name after the colon, for a server that speaks this API ("" for OpenAI).
	Name string
	// BaseURL with its version; "" for https://api.openai.com/v1.
	BaseURL string
	// Key is asked before every call, so that a key can be changed without a restart.
	Key func(context.Context) (string, error)
	// MaxTokens bounds answers to requests without a bound; 0 leaves it to the server.
	MaxTokens int64
	// MaxTokensMember is the member that holds the bound; "" for max_completion_tokens. Older servers
	// know max_tokens only. The daemon does not set it.
	MaxTokensMember string
	Limits          model.Limits
}

// Client is a model.Model.
type Client struct {
	config   Config
	provider string
	api      sdk.Client
}

var _ model.Model = (*Client)(nil)

// New makes a client.
func New(config Config) (*Client, error) {
	if config.Key == nil {
		return nil, errors.New("openai: no source of the API key")
	}
	if config.MaxTokensMember == "" {
		config.MaxTokensMember = "max_completion_tokens"
	}
	options := []option.RequestOption{option.WithEnvironmentProduction(), option.WithMaxRetries(0)}
	if config.BaseURL != "" {
		options = append(options, option.WithBaseURL(config.BaseURL))
	}
	c := &Client{config: config, provider: "openai"}
	if config.Name != "" {
		c.provider += ":" + config.Name
	}
	// Not sdk.NewClient: it takes keys, addresses and headers from the environment.
	c.api = sdk.Client{Options: options}
	return c, nil
}

// Provider is "openai" or "openai:<name>".
func (c *Client) Provider() string { return c.provider }

// Ask is Model's.
func (c *Client) Ask(ctx context.Context, req model.Request, onDelta func(model.Delta) error) (model.Answer, error) {
	body, err := c.body(req)
	if err != nil {
		return model.Answer{}, &model.Error{Kind: model.Refused, Provider: c.provider, Message: err.Error()}
	}
	within, x, err := exchange.Begin(ctx, c.provider, c.config.Key, c.config.Limits)
	if err != nil {
		return model.Answer{}, err
	}
	defer x.End()
	var resp *http.Response
	err = c.api.Post(within, "chat/completions", body, &resp,
		option.WithHTTPClient(x), option.WithAPIKey(x.Key()), option.WithHeader("Accept", "text/event-stream"))
	if err != nil {
		return model.Answer{}, x.Failed(err)
	}
	defer resp.Body.Close()
	answer, err := read(x, ssestream.NewDecoder(resp), newAssembly(req.Messages), onDelta)
	if err != nil {
		return model.Answer{}, err
	}
	answer.Provider, answer.Model = c.provider, req.Model
	return answer, nil
}

// read reads chunks until the stream ends. [DONE] ends it at once; a server that sends none ends it by closing, which is
// believed when a finish reason has come.
func read(x *exchange.Exchange, events ssestream.Decoder, a *assembly, onDelta func(model.Delta) error) (model.Answer, error) {
	for events.Next() {
		data := bytes.TrimSpace(events.Event().Data)
		if string(data) == "[DONE]" {
			return whole(x, a)
		}
		deltas, err := a.chunk(data)
		if errors.Is(err, errRefusal) {
			return model.Answer{}, x.InStream(data)
		}
		if err != nil {
			return model.Answer{}, x.Broken("%v", err)
		}
		for _, d := range deltas {
			if onDelta == nil {
				break
			}
			if err := onDelta(d); err != nil {
				return model.Answer{}, err
			}
		}
	}
	if err := events.Err(); err != nil {
		return model.Answer{}, x.Failed(err)
	}
	return whole(x, a)
}

func whole(x *exchange.Exchange, a *assembly) (model.Answer, error) {
	answer, err := a.answer()
	if err != nil {
		return model.Answer{}, x.Broken("%v", err)
	}
	return answer, nil
}
