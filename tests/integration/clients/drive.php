<?php
// The same as drive.py for a sample in PHP, one call after the other: drive.php SAMPLE POLICY KEY THREADS CALLS.

[, $sample, $policy, $key, $threads, $calls] = $argv;
ini_set("display_errors", "stderr");
require __DIR__ . "/$sample.php";
$admitted = 0;
$longest = 0;
for ($i = 0; $i < $threads * $calls; ++$i) {
    $start = microtime(true);
    $admitted += take($policy, $key)['allowed'];
    $longest = max($longest, microtime(true) - $start);
}
printf("{\"admitted\": %d, \"longest\": %.3f}\n", $admitted, $longest);
