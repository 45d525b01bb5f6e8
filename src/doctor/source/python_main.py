"""The end of the embedded script: reads the file, calls the checks, and prints the marks."""


def main():
    if sys.version_info < (3, 9):
        sys.exit(3)  # older versions have other syntax trees; berth then uses another interpreter
    gc.disable()  # saves time: nothing can be freed, because the syntax tree is needed until the end
    looks = [plain_calls, assignments, unread_settings, apex, half_without_scaler, empty_cache, visible_devices,
             library_path, forks, handlers, each_step, distributed, timings, workers, batches, current_device, prunes,
             dropped_moves, device_counts, ranks, cuda_in_workers, settings_and_commands]
    try:
        data = sys.stdin.buffer.read()
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
        source = Source(text.replace("\r\n", "\n").replace("\r", "\n"))
        for look in looks:
            look(source)
        answer = {"marks": sorted(source.marks)}
    except SyntaxError as problem:
        answer = {"problem": "syntax", "line": problem.lineno or 0}
    except (ValueError, RecursionError, MemoryError, OverflowError):
        answer = {"problem": "too deep or too large", "line": 0}
    sys.stdout.write(json.dumps(answer))


main()
