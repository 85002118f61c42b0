/// The sample plugins. Each call becomes one line of the file `calls`: how it went, and the message
/// as it came.
enum Plugins {
    /// Files named after a hook, in the workbench's folder, make it misbehave:
    ///
    /// - `refuse-HOOK`: it answers with an error, or ends with status 1.
    /// - `hang-HOOK`: it starts a child that would live on, and never answers.
    /// - `die-HOOK`: it ends without an answer.
    /// - `nonsense-HOOK`: it answers what no protocol knows.
    ///
    /// In its environment: `DELAY`, seconds for each call; `RESULT`, what merge hooks answer;
    /// `REJECT`, the author whose transactions they reject; `TELL`, a FIFO that gets a byte a call.
    static let recordInPython = #"""
        #!/usr/bin/python3
        import json, os, sys, time
        bench = os.environ['BENCH']
        calls = os.open(bench + '/calls', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        tell = os.open(os.environ['TELL'], os.O_WRONLY) if 'TELL' in os.environ else None
        delay = float(os.environ.get('DELAY', 0))

        def how(hook):
            for manner in 'refuse', 'hang', 'die', 'nonsense':
                if os.path.exists(f'{bench}/{manner}-{hook}'): return manner
            return 'ok'

        def merged(params):
            if 'REJECT' in os.environ:
                tokens = [t['token'] for t in params['transactions'] if t['author'] == os.environ['REJECT']]
                return {'verdict': 'goOn', 'reject': tokens}
            return json.loads(os.environ.get('RESULT', '"goOn"'))

        def note(manner, line):
            os.write(calls, manner.encode() + b' ' + line)
            if tell is not None: os.write(tell, b'.')

        def handle(method, params, line):
            if delay: time.sleep(delay)
            manner = how(params['hook'].split('/')[1])
            if manner == 'hang':
                import subprocess  # which takes longer than all else here
                child = subprocess.Popen(['sleep', '1000'], close_fds=False)
                with open(bench + '/hanging', 'a') as file: print(os.getpid(), child.pid, file=file)
            note(manner, line)
            if manner == 'hang': time.sleep(1000)
            if manner == 'die': os._exit(3)
            return manner, merged(params) if method == 'merge' else None

        if sys.argv[1] == 'coprocess':
            for line in sys.stdin.buffer:
                request = json.loads(line)
                manner, result = handle(request['method'], request['params'], line)
                if manner == 'nonsense': print('what?', flush=True); continue
                answer = {'result': result} if manner == 'ok' else {'error': {'code': 1, 'message': 'refused'}}
                print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], **answer}), flush=True)
        else:
            line = sys.stdin.buffer.readline()
            params = json.loads(line)
            manner, result = handle(os.environ['HISTORYD_METHOD'], params, line)
            if manner == 'refuse': sys.exit('refused')
            if manner == 'nonsense': print('what?')
            elif result is not None: print(json.dumps(result))
        """#

    /// With what a oneshot plugin finds in its environment in front of the line.
    static let recordInShell = #"""
        #!/bin/sh
        read -r line
        printf 'ok %s %s %s %s %s %s\n' "$HISTORYD_METHOD" "$HISTORYD_STORE" "$HISTORYD_CONSUMER" \
            "$HISTORYD_HOOK" "$HISTORYD_DELIVERY" "$line" >>"$BENCH/calls"
        """#
}
