/** `coordinate completion`: prints a completion script for a shell to source. */
import { command } from "../command.ts";
import { exit, UsageError } from "../failure.ts";

const bash = `# coordinate completion for bash: source <(coordinate completion bash)
_coordinate() {
  local IFS=$'\\n'
  COMPREPLY=($(coordinate complete_words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _coordinate coordinate
`;

const zsh = `#compdef coordinate
# coordinate completion for zsh: source <(coordinate completion zsh)
_coordinate() {
  local -a found
  found=("\${(@f)$(coordinate complete_words -- "\${words[@]:1:$((CURRENT - 1))}" 2>/dev/null)}")
  if [[ -n "\${found[*]}" ]]; then compadd -a found; else _files; fi
}
compdef _coordinate coordinate
`;

const fish = `# coordinate completion for fish: coordinate completion fish | source
function __coordinate_complete
  set -l words (commandline -opc) (commandline -ct)
  coordinate complete_words -- $words[2..-1] 2>/dev/null
end
complete -c coordinate -a '(__coordinate_complete)'
`;

const scripts: Readonly<Record<string, string>> = { bash, zsh, fish };

export default command({
  define: (it) => {
    it.argument("<shell>", "bash, zsh or fish").addHelpText(
      "after",
      "\nbash: source <(coordinate completion bash)",
    );
  },
  run: async ({ out }, { args: [shell = ""] }) => {
    const script = scripts[shell];
    if (script === undefined) throw new UsageError(`expected bash, zsh or fish, got ${shell}`);
    out.stream.write(script);
    return exit.done;
  },
});
