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
    _weir_words "serve take peek reset explain policies boost block pause squeeze orders lift test validate -h --help --version"
    return
  fi
  case ${COMP_WORDS[1]} in
  serve)
    case $before in
      --config) _weir_files; return ;;
      --threads) _weir_words ""; return ;;
      --log) _weir_words "json text"; return ;;
    esac
    _weir_words "-h --help --config --threads --log" ;;
  take)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --part) _weir_words ""; return ;;
      --permits) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --json --part --permits" ;;
  peek)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --part) _weir_words ""; return ;;
      --permits) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --json --part --permits" ;;
  reset)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --part) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --json --part" ;;
  explain)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --part) _weir_words ""; return ;;
      --permits) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --json --part --permits" ;;
  policies)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --json" ;;
  boost)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --times) _weir_words ""; return ;;
      --add) _weir_words ""; return ;;
      --until) _weir_words ""; return ;;
      --for) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --json --times --add --until --for" ;;
  block)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --until) _weir_words ""; return ;;
      --for) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --json --until --for" ;;
  pause)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --until) _weir_words ""; return ;;
      --for) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --json --until --for" ;;
  squeeze)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
      --times) _weir_words ""; return ;;
      --until) _weir_words ""; return ;;
      --for) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --json --times --until --for" ;;
  orders)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --json" ;;
  lift)
    case $before in
      --url) _weir_words ""; return ;;
      --token) _weir_words ""; return ;;
    esac
    _weir_words "-h --help --url --token --json" ;;
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
  esac
}

complete -o filenames -F _weir weir
