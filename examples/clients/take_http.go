package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

var client = &http.Client{
	Timeout:   100 * time.Millisecond,                    // for the whole call
	Transport: &http.Transport{MaxIdleConnsPerHost: 256}, // connections that stay open; their number has no limit
}

func take(policy, key string) (allowed bool, retryAfterMs int64, err error) {
	body, _ := json.Marshal(map[string]any{"policy": policy, "key": key})
	answer, err := client.Post("http://127.0.0.1:7380/v1/take", "application/json", bytes.NewReader(body))
	if err != nil {
		return true, 0, nil // weir does not answer: fail open
	}
	defer answer.Body.Close()
	decision := struct {
		Allowed      bool
		RetryAfterMs int64 `json:"retry_after_ms"`
		Detail       string
	}{RetryAfterMs: -1} // stays so for null: the call can never pass
	if err := json.NewDecoder(answer.Body).Decode(&decision); err != nil {
		return true, 0, nil // the connection broke, or the time is over
	}
	switch answer.StatusCode {
	case 200, 429, 503:
		return decision.Allowed, decision.RetryAfterMs, nil
	}
	return false, 0, errors.New(decision.Detail) // a mistake
}
