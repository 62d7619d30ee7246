<?php
const DEADLINE = 0.1;   // seconds: to connect, and for each answer
const VALUES = ['allowed', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'wait_ms', 'limited_by', 'degraded'];

function take(string $policy, string $key): array {
    static $weir = new Redis();
    try {
        if (!$weir->isConnected()) {
            $weir->pconnect('127.0.0.1', 7379, DEADLINE);          // stays open between requests
            $weir->setOption(Redis::OPT_READ_TIMEOUT, DEADLINE);
            $weir->setOption(Redis::OPT_MAX_RETRIES, 0);           // no hidden retries
        }
        $answer = $weir->rawCommand('WEIR.TAKE', $policy, $key);
    } catch (RedisException $unavailable) {
        $weir->close();
        return ['allowed' => 1, 'retry_after_ms' => 0];            // weir does not answer: fail open
    }
    if ($answer === false) {
        throw new InvalidArgumentException($weir->getLastError()); // a mistake
    }
    return array_is_list($answer) ? array_combine(VALUES, $answer) : $answer;
}
