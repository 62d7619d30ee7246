# Written by tools/make-completion out of `weir --help`: do not edit, run `make completion`.
# shellcheck shell=bash disable=SC2207

_weir_words() { COMPREPLY=($(compgen -W "$1" -- "$word")); }
_weir_files() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -f -- "$word"))
}

_weir() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _weir_words "serve take peek reset explain policies boost block pause squeeze orders lift fleet bench top test validate import -h --help --version"
    return
  fi
  case ${COMP_WORDS[1]} in
  serve)
    case $before in
      --config) _weir_files; return ;;
      --threads) _weir_words ""; return ;;
      --spin) _weir_words ""; return ;;
      --gather) _weir_words ""; return ;;
      --log) _weir_words "json text"; return ;;
      --metrics) _weir_words "off on"; return ;;
      --top) _weir_words "off on"; return ;;
      --drain) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --config --threads --spin --gather --log --metrics --top --drain" ;;
  take)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --ca) _weir_files; return ;;
      --cert) _weir_files; return ;;
      --key) _weir_files; return ;;
      --part) _weir_words ""; return ;;
      --permits) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --ca --cert --key --json --part --permits" ;;
  peek)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --ca) _weir_files; return ;;
      --cert) _weir_files; return ;;
      --key) _weir_files; return ;;
      --part) _weir_words ""; return ;;
      --permits) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --ca --cert --key --json --part --permits" ;;
  reset)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --ca) _weir_files; return ;;
      --cert) _weir_files; return ;;
      --key) _weir_files; return ;;
      --part) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --ca --cert --key --json --part" ;;
  explain)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --ca) _weir_files; return ;;
      --cert) _weir_files; return ;;
      --key) _weir_files; return ;;
      --domain) _weir_words ""; return ;;
      --part) _weir_words ""; return ;;
      --permits) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --ca --cert --key --json --domain --part --permits" ;;
  policies)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --ca) _weir_files; return ;;
      --cert) _weir_files; return ;;
      --key) _weir_files; return ;;
    esac
    _weir_words "-h --help --url --token --ca --cert --key --json" ;;
  boost)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --ca) _weir_files; return ;;
      --cert) _weir_files; return ;;
      --key) _weir_files; return ;;
      --times) _weir_words ""; return ;;
      --add) _weir_words ""; return ;;
      --until) _weir_words ""; return ;;
      --for) _weir_words ""; return ;;
      --reason) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --ca --cert --key --json --times --add --until --for --reason" ;;
  block)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --ca) _weir_files; return ;;
      --cert) _weir_files; return ;;
      --key) _weir_files; return ;;
      --until) _weir_words ""; return ;;
      --for) _weir_words ""; return ;;
      --reason) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --ca --cert --key --json --until --for --reason" ;;
  pause)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --ca) _weir_files; return ;;
      --cert) _weir_files; return ;;
      --key) _weir_files; return ;;
      --until) _weir_words ""; return ;;
      --for) _weir_words ""; return ;;
      --reason) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --ca --cert --key --json --until --for --reason" ;;
  squeeze)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --ca) _weir_files; return ;;
      --cert) _weir_files; return ;;
      --key) _weir_files; return ;;
      --times) _weir_words ""; return ;;
      --until) _weir_words ""; return ;;
      --for) _weir_words ""; return ;;
      --reason) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --ca --cert --key --json --times --until --for --reason" ;;
  orders)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --ca) _weir_files; return ;;
      --cert) _weir_files; return ;;
      --key) _weir_files; return ;;
    esac
    _weir_words "-h --help --url --token --ca --cert --key --json" ;;
  lift)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --ca) _weir_files; return ;;
      --cert) _weir_files; return ;;
      --key) _weir_files; return ;;
    esac
    _weir_words "-h --help --url --token --ca --cert --key --json" ;;
  fleet)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --ca) _weir_files; return ;;
      --cert) _weir_files; return ;;
      --key) _weir_files; return ;;
    esac
    _weir_words "-h --help --url --token --ca --cert --key --json" ;;
  bench)
    case $before in
      --policy) _weir_words ""; return ;;
      --limit) _weir_words ""; return ;;
      --keys) _weir_words ""; return ;;
      --spread) _weir_words ""; return ;;
      --mix) _weir_words ""; return ;;
      --permits) _weir_words ""; return ;;
      --prefix) _weir_words ""; return ;;
      --seed) _weir_words ""; return ;;
      --connections) _weir_words ""; return ;;
      --pipeline) _weir_words ""; return ;;
      --threads) _weir_words ""; return ;;
      --rate) _weir_words ""; return ;;
      --duration) _weir_words ""; return ;;
      --requests) _weir_words ""; return ;;
      --warmup) _weir_words ""; return ;;
      --timeout) _weir_words ""; return ;;
      --password|--token) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --policy --limit --keys --spread --mix --permits --prefix --seed --connections --pipeline --threads --rate --duration --requests --warmup --timeout --spin --password --token --json" ;;
  top)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --ca) _weir_files; return ;;
      --cert) _weir_files; return ;;
      --key) _weir_files; return ;;
      --policy) _weir_words ""; return ;;
      --interval) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --ca --cert --key --policy --interval --once" ;;
  test)
    case $before in
      --config) _weir_files; return ;;
      --store) _weir_words ""; return ;;
    esac
    [[ $word != -* ]] && _weir_files && return
    _weir_words "-h --help --config --store --json" ;;
  validate)
    [[ $word != -* ]] && _weir_files && return
    _weir_words "-h --help --json" ;;
  import)
    [[ $word != -* ]] && _weir_files && return
    _weir_words "-h --help --gateway" ;;
  esac
}

complete -o filenames -F _weir weir
