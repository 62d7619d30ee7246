package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const deadline = 100 * time.Millisecond // to connect, and for each answer

var weir = redis.NewClient(&redis.Options{
	Addr:        "127.0.0.1:7379",
	DialTimeout: deadline, ReadTimeout: deadline, WriteTimeout: deadline,
	MaxRetries: -1, DialerRetries: 1, // no hidden retries
	PoolSize: 64, PoolTimeout: 10 * time.Second, // more goroutines than connections wait
})

func take(policy, key string) (allowed bool, retryAfterMs int64, err error) {
	answer, err := weir.Do(context.Background(), "WEIR.TAKE", policy, key).Result()
	var mistake redis.Error
	if errors.As(err, &mistake) || errors.Is(err, redis.ErrPoolTimeout) {
		return false, 0, err // a misspelled policy, or too few connections
	}
	switch values := answer.(type) {
	case map[any]any: // RESP3 has names
		return values["allowed"] == int64(1), values["retry_after_ms"].(int64), nil
	case []any: // RESP2 has not
		return values[0] == int64(1), values[3].(int64), nil
	}
	return true, 0, nil // weir does not answer: fail open
}
