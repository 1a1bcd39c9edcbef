"""One HTML page about a program: what was found, as pictures and tables. It needs jinja2 (the extra ``report``).

``gather`` asks all that is on the page, at one moment; ``states`` says of each thread what colour it has; ``svg``
writes pictures, of which ``waits``, ``teams``, ``icicle`` and ``histogram`` are the kinds; ``sections`` makes what the
template in ``page/`` shows, ``page`` puts it together, ``template`` fills it. ``triage`` is another command's page.
Only the commands that write pages and whoever wants one may come in: no other command imports it.
"""
