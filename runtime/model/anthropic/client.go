// Package anthropic asks models over Anthropic's Messages API.
//
// The SDK gives authentication, headers and the reading of events. The body that is sent and the blocks that
// come back are handled as raw JSON, because the SDK's types would change their bytes.
package anthropic

import (
	"context"
	"errors"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/internal/exchange"
)

// DefaultMaxTokens is sent when neither the request nor the configuration has a bound; the API demands one.
const DefaultMaxTokens = 8192

// Config is what a client needs. Nothing is read from the environment.
type Config struct {
	// Name is the provider's name after the colon, for a server that speaks this API ("" for Anthropic).
	Name string
	// BaseURL without /v1; "" for https://api.anthropic.com.
	BaseURL string
	// Key is asked before every call, so that a key can be changed without a restart.
	Key func(context.Context) (string, error)
	// MaxTokens bounds answers to requests without a bound.
	MaxTokens int64
	Limits    model.Limits
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
		return nil, errors.New("anthropic: no source of the API key")
	}
	if config.MaxTokens <= 0 {
		config.MaxTokens = DefaultMaxTokens
	}
	options := []option.RequestOption{option.WithEnvironmentProduction(), option.WithMaxRetries(0)}
	if config.BaseURL != "" {
		options = append(options, option.WithBaseURL(config.BaseURL))
	}
	c := &Client{config: config, provider: "anthropic"}
	if config.Name != "" {
		c.provider += ":" + config.Name
	}
	// Not sdk.NewClient: it takes keys, addresses and headers from the environment and from files.
	c.api = sdk.Client{Options: options}
	return c, nil
}

// Provider is "anthropic" or "anthropic:<name>".
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
	err = c.api.Post(within, "v1/messages", body, &resp,
		option.WithHTTPClient(x), option.WithAPIKey(x.Key()), option.WithHeader("Accept", "text/event-stream"))
	if err != nil {
		return model.Answer{}, x.Failed(err)
	}
	defer resp.Body.Close()
	answer, err := read(x, ssestream.NewDecoder(resp), onDelta)
	if err != nil {
		return model.Answer{}, err
	}
	answer.Provider, answer.Model = c.provider, req.Model
	return answer, nil
}

// read reads events until the message is whole.
func read(x *exchange.Exchange, events ssestream.Decoder, onDelta func(model.Delta) error) (model.Answer, error) {
	var a assembly
	for events.Next() {
		data := events.Event().Data
		delta, err := a.event(data)
		if errors.Is(err, errRefusal) {
			return model.Answer{}, x.InStream(data)
		}
		if err != nil {
			return model.Answer{}, x.Broken("%v", err)
		}
		if delta.Kind != 0 && onDelta != nil {
			if err := onDelta(delta); err != nil {
				return model.Answer{}, err
			}
		}
		if a.done {
			answer, err := a.answer()
			if err != nil {
				return model.Answer{}, x.Broken("%v", err)
			}
			return answer, nil
		}
	}
	if err := events.Err(); err != nil {
		return model.Answer{}, x.Failed(err)
	}
	return model.Answer{}, x.Broken("the stream ended before its message")
}
